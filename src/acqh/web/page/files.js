// Images that are dropped or pasted anywhere, or chosen.

/**
 * Call `use` with the files.
 *
 * @param {(files: FileList) => void} use
 * @param {HTMLElement} sign shown while files are dragged
 * @param {HTMLButtonElement} button opens the file dialogue
 * @param {HTMLInputElement} input the file dialogue
 */
export function addFiles(use, sign, button, input) {
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    use([...input.files]);
    input.value = ""; // so that the same file can be chosen again
  });
  document.addEventListener("paste", ({ clipboardData }) => use([...clipboardData.files]));

  let depth = 0; // entering an element inside comes before leaving the one around it
  const onFiles = (kind, work) =>
    document.addEventListener(kind, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      work(event.dataTransfer);
      sign.hidden = depth < 1;
    });
  onFiles("dragenter", () => (depth += 1));
  onFiles("dragleave", () => (depth -= 1));
  onFiles("dragover", () => {});
  onFiles("drop", ({ files }) => {
    depth = 0;
    use([...files]);
  });
}
