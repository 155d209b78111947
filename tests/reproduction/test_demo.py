"""The demo: both methods, a table, a picture; a second time it only shows them."""

from alphamepol.reproduction import demo


def test_demo_runs_and_shows_again(tiny, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(demo, "preset", lambda *_: tiny)
    demo.demo(tmp_path)
    first = capsys.readouterr().out
    assert "αMEPOL (0.2)" in first
    assert "GWN (p = 0.2)" in first
    assert (tmp_path / "demo.png").stat().st_size > 1000
    assert (tmp_path / "mepol/summary.json").exists()
    demo.demo(tmp_path)
    again = capsys.readouterr().out
    assert "epoch" not in again
    assert first.splitlines()[-12:] == again.splitlines()[-12:]
