"""An output that is interrupted goes on where it was: every line once, in order."""

import pytest

from jumok.errors import DataError, DiskError, UsageError
from jumok.text.drafts import Draft

ABOUT = {"model": "m", "input": "i", "option": {"beam": 5}}


def lines(first, last):
    return (f"line {n} 주목" for n in range(first, last))


def broken(first, last):
    yield from lines(first, last)
    raise KeyboardInterrupt


def test_a_finished_draft_is_the_file_and_nothing_else(tmp_path):
    draft = Draft.begin(tmp_path / "out", about=ABOUT, resume=False)
    assert not (tmp_path / "out").exists()
    draft.write(lines(0, 5))
    draft.finish()
    assert (tmp_path / "out").read_text().split("\n") == [*lines(0, 5), ""]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("cut", range(0, 40, 3))
def test_a_draft_cut_off_at_any_byte_goes_on_with_its_first_missing_line(tmp_path, cut):
    draft = Draft.begin(tmp_path / "out", about=ABOUT, resume=True)
    with pytest.raises(KeyboardInterrupt):
        draft.write(broken(0, 4))
    whole = draft.part.read_bytes()
    draft.part.write_bytes(whole[: len(whole) - cut])
    again = Draft.begin(tmp_path / "out", about=ABOUT, resume=True)
    assert again.lines == whole[: len(whole) - cut].count(b"\n")
    again.write(lines(again.lines, 9))
    again.finish()
    assert (tmp_path / "out").read_text().split("\n") == [*lines(0, 9), ""]


def test_without_resume_a_draft_begins_anew(tmp_path):
    Draft.begin(tmp_path / "out", about=ABOUT, resume=True).write(lines(0, 4))
    assert Draft.begin(tmp_path / "out", about=ABOUT, resume=False).lines == 0


@pytest.mark.parametrize("name", ["model", "input", "option"])
def test_nobody_goes_on_with_something_else(tmp_path, name):
    Draft.begin(tmp_path / "out", about=ABOUT, resume=True).write(lines(0, 2))
    with pytest.raises(UsageError, match=f"another {name}"):
        Draft.begin(tmp_path / "out", about=ABOUT | {name: "other"}, resume=True)
    (tmp_path / "out.part.json").unlink()
    with pytest.raises(UsageError, match="another"):
        Draft.begin(tmp_path / "out", about=ABOUT, resume=True)


def test_what_cannot_be_written_is_said(tmp_path):
    with pytest.raises(UsageError, match="compressed"):
        Draft.begin(tmp_path / "out.gz", about=ABOUT, resume=True)
    with pytest.raises(DiskError):
        Draft.begin(tmp_path / "nowhere" / "out", about=ABOUT, resume=True)
    draft = Draft.begin(tmp_path / "out", about=ABOUT, resume=True)
    with pytest.raises(DataError):
        draft.write(["fine", "a\nb"])
    assert Draft.begin(tmp_path / "out", about=ABOUT, resume=True).lines == 1
