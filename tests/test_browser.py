def test_the_browser_renders_a_page_and_runs_its_script(chromium):
    page = chromium.new_page()
    page.set_content(
        "<p>before</p><script>document.querySelector('p').textContent='after'</script>"
    )
    assert page.inner_text("p") == "after"
