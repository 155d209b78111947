"""A video: episodes side by side, which can be shown and saved."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from alphamepol.figures.videos.encoding import check_video_suffix, count_frames, encode_video
from alphamepol.figures.videos.frames import Panel, Pixels, compose_frame
from alphamepol.files.atomic import write_atomically
from alphamepol.notebooks.views import view


@dataclass(frozen=True)
class Episode:
    """An episode of a video, without its pictures."""

    member: str
    """The name of the member."""
    method: str
    """The label of the policy, for example "αMEPOL (0.2)" or "Random"."""
    steps: int
    """The number of steps."""
    returned: float | None
    """The sum of all rewards; None without a task."""


@dataclass(frozen=True)
class Video:
    """A video of policies that act, which `render` and `replay` return. It moves when a notebook shows it."""

    episodes: tuple[Episode, ...]
    """The episodes, in the order of the video."""
    fps: int
    """The number of frames per second."""
    columns: int
    """The number of episodes side by side."""
    path: Path | None
    """The file that `render` has written; None if it has written none."""
    panels: tuple[Panel, ...] = field(repr=False)
    """The pictures and captions of each episode."""

    def __len__(self) -> int:
        """Return the number of frames."""
        return count_frames(self.panels)

    def frames(self) -> Iterator[Pixels]:
        """Yield the frames with their captions, as arrays of shape (height, width, 3)."""
        for number in range(len(self)):
            yield compose_frame(self.panels, self.columns, number)

    def save(self, out: str | Path, track: Callable[[Iterable[int]], Iterable[int]] = iter) -> None:
        """Write the video to a file.

        **Arguments**

        - `out`: the file. Its name ends in .mp4, .gif, or .png for a picture with some frames side by side.
        - `track`: a function that iterates over the numbers of frames and may show progress, as `rich.progress.track`
          does.

        **Raises**

        - `InputError`: if there is no such format, or if the library for it is not installed.
        """
        out = Path(out)
        check_video_suffix(out)
        write_atomically(out, encode_video(self.panels, self.columns, self.fps, out.suffix.lower(), track))

    def _repr_html_(self) -> str:
        return view("video", self, encode_video(self.panels, self.columns, self.fps, ".gif"))
