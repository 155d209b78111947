"""Test the demo. It runs both methods and makes a table and a picture. A second call only shows them again."""

from public_examples import example_of

from alphamepol.reproduction import demo


def test_demo_runs_and_shows_again(tiny, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(demo, "preset", lambda *_: tiny)
    monkeypatch.chdir(tmp_path)
    example = example_of("demo")
    assert example
    exec(example)
    first = capsys.readouterr().out
    assert "αMEPOL (0.2)" in first
    assert "GWN (p = 0.2)" in first
    assert (tmp_path / "runs/demo/demo.png").stat().st_size > 1000
    assert (tmp_path / "runs/demo/mepol/summary.json").exists()
    exec(example)
    again = capsys.readouterr().out
    assert "epoch" not in again
    assert first.splitlines()[-12:] == again.splitlines()[-12:]
