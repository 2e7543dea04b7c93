import logging

import pytest

from acqh.errors import InvalidInputError
from acqh.serve import Settings
from acqh.serve.settings import Tokens, read_tokens


def test_the_defaults_are_loopback_and_read_only():
    settings = Settings(collection="things.acqh")
    tokens = read_tokens(settings)
    assert settings.is_loopback
    assert tokens.read is None
    assert tokens.write is None


def test_settings_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("ACQH_N_THREADS", "7")
    monkeypatch.setenv("ACQH_COLLECTION", "elsewhere.acqh")
    settings = Settings()
    assert settings.n_threads == 7
    assert str(settings.collection) == "elsewhere.acqh"


@pytest.mark.parametrize("wrong", [{"query_encoder": "clip"}, {"port": 70000}, {"n_threads": 0}])
def test_settings_out_of_range_are_rejected(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Settings(collection="things.acqh", **wrong)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.1.2.3", True),
     ("0.0.0.0", False), ("::", False), ("192.168.1.5", False), ("example.org", False)],  # noqa: S104
)  # fmt: skip
def test_loopback_differs_from_other_hosts(host, expected):
    assert Settings(collection="things.acqh", host=host).is_loopback is expected


def test_another_host_is_rejected_without_a_token_and_the_error_says_what_to_do(tmp_path):
    settings = {"collection": "things.acqh", "host": "0.0.0.0"}  # noqa: S104
    with pytest.raises(InvalidInputError, match="--token-file"):
        read_tokens(Settings(**settings))
    token = tmp_path / "token"
    token.write_text("x" * 16)
    assert read_tokens(Settings(**settings, token_file=token)).read


@pytest.mark.parametrize(
    "content", [b"", b"short", b"two words of a token", b"\xff" * 20, b"a" * 9]
)
def test_a_token_that_cannot_be_used_is_rejected_without_showing_it(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="16") as caught:
        read_tokens(Settings(collection="things.acqh", token_file=path))
    assert not content or content.decode("latin-1") not in str(caught.value)


def test_one_token_cannot_be_for_reading_and_for_writing():
    with pytest.raises(InvalidInputError, match="same"):
        Tokens("x" * 16, "x" * 16)


def test_who_may_read_and_who_may_write():
    open_to_all, guarded = Tokens(), Tokens("r" * 16, "w" * 16)
    for token in (None, "", "r" * 16, "w" * 16, "é", "\ud800"):
        assert open_to_all.may_read(token)
        assert not open_to_all.may_write(token)
        assert guarded.may_read(token) == (token in ("r" * 16, "w" * 16))
        assert guarded.may_write(token) == (token == "w" * 16)


def test_both_tokens_are_compared_for_every_client(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    assert Tokens("r" * 16, "w" * 16).may_read("r" * 16)
    assert len(compared) == 2


def test_tokens_do_not_show_themselves(caplog):
    with caplog.at_level(logging.DEBUG):
        shown = repr(Tokens("secret" * 3, "hidden" * 3))
        logging.getLogger("test").info("%s", shown)
    assert "secret" not in shown + caplog.text
    assert "hidden" not in shown + caplog.text
