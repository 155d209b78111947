"""The files of videos: MP4, GIF, and PNG with some frames side by side."""

import io
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np
from PIL import Image

from alphamepol.errors import InputError, RunError
from alphamepol.figures.style import in_style_palette
from alphamepol.figures.videos.frames import PAPER, Panel, Pixels, compose_frame, compose_strip

SUFFIXES = (".mp4", ".gif", ".png")
IN_STRIP = 8
"""The number of frames in a picture strip of a longer video."""
MOST_IN_STRIP = 12
"""The most frames of a video of which a picture strip has all."""
WHITE = 255
"""The number of the background's colour in the palette of a GIF."""
VIDEO_EXTRA = "an MP4 needs ffmpeg: pip install 'alphamepol[video]'; .gif and .png need nothing"


def check_video_suffix(out: Path) -> None:
    """Raise an `InputError` if no video can be written to a file of this name."""
    if out.suffix.lower() not in SUFFIXES:
        raise InputError(f"out: {out} was given; its name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if out.is_dir():
        raise InputError(f"out: {out} is a folder; give the name of a file")
    if out.suffix.lower() == ".mp4":
        try:
            import imageio_ffmpeg  # noqa: F401
        except ImportError as error:
            raise InputError(f"out: {out} was given; {VIDEO_EXTRA}") from error


def encode_video(
    panels: Sequence[Panel],
    columns: int,
    fps: int,
    suffix: str,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> bytes:
    """Return a video as the content of a file with this suffix.

    `track` is a function that iterates over the numbers of the frames and may show progress.
    """
    count = count_frames(panels)
    if suffix == ".png":
        few = np.linspace(0, count - 1, IN_STRIP).round().astype(int).tolist()
        return _encode_png(compose_strip(panels, few if count > MOST_IN_STRIP else range(count)))
    frames = (compose_frame(panels, columns, number) for number in track(range(count)))
    if suffix == ".mp4":
        return _encode_mp4(frames, fps)
    samples = [compose_frame(panels, columns, number) for number in (0, count // 2, count - 1)]
    return _encode_gif(frames, samples, fps)


def count_frames(panels: Sequence[Panel]) -> int:
    """Return the number of frames: as many as the longest episode has pictures."""
    return max(len(panel.pictures) for panel in panels)


def _encode_mp4(frames: Iterable[Pixels], fps: int) -> bytes:
    """Return frames as an MP4 file (H.264), which every browser and slide program can show."""
    import imageio_ffmpeg

    frames = iter(frames)
    first = next(frames)
    height, width = first.shape[:2]
    raw = "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"
    coded = "-c:v", "libx264", "-preset", "medium", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"
    # ffmpeg has to go back in its file, so that it cannot write to a pipe.
    with tempfile.TemporaryDirectory() as folder:
        path, told = Path(folder) / "video.mp4", Path(folder) / "told.txt"
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", *raw, *coded, str(path)]
        # We start ffmpeg ourselves: imageio forks this process to do so, which may wait for ever beside JAX's threads.
        with told.open("wb") as said:
            ffmpeg = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, stderr=said, process_group=0)
            try:
                assert ffmpeg.stdin is not None
                with suppress(BrokenPipeError), ffmpeg.stdin:
                    for frame in chain([first], frames):
                        ffmpeg.stdin.write(frame.tobytes())
                status = ffmpeg.wait()
            finally:
                ffmpeg.kill()
                ffmpeg.wait()
        if status != 0:
            reason = " ".join(told.read_text(errors="replace").split())[-300:]
            raise RunError(f"out: ffmpeg failed ({reason}); is there room on the disk of {tempfile.gettempdir()}?")
        return path.read_bytes()


def _encode_gif(frames: Iterable[Pixels], samples: Sequence[Pixels], fps: int) -> bytes:
    """Return frames as a GIF that repeats for ever.

    All frames share the colours of the samples, so that only what moves takes bytes.
    """
    sampled = Image.fromarray(np.concatenate(samples))
    palette = sampled.quantize(WHITE, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    colours = (palette.getpalette() or [])[: 3 * WHITE]
    colours = [*colours, *[0] * (3 * WHITE - len(colours)), *PAPER]

    def in_few_colours(frame: Pixels) -> Image.Image:
        """Return a frame in the colours of the palette. The background is exactly that of the page around it."""
        numbers = np.array(Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE))
        numbers[np.all(frame == PAPER, axis=-1)] = WHITE
        image = Image.fromarray(numbers)
        image.putpalette(colours)
        return image

    few = map(in_few_colours, frames)
    buffer = io.BytesIO()
    # A GIF counts hundredths of a second.
    duration = 10 * round(100 / fps)
    next(few).save(buffer, "gif", save_all=True, append_images=few, duration=duration, loop=0)
    return buffer.getvalue()


def _encode_png(frame: Pixels) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "png")
    return in_style_palette(buffer.getvalue())
