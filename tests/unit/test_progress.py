"""Progress: one line for people, lines for logs, JSON for machines, and never in the way."""

from __future__ import annotations

import io
import json

import pytest

from runnel.progress import MODES, Progress, duration


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


FACTS = {"particles": 125000, "ms_per_step": 38.25, "density_error": 0.0084}


def run(mode, stream, frames=4, last=10):
    """Frames of two seconds each."""
    clock = Clock()
    with Progress(1, last, mode=mode, stream=stream, clock=clock) as progress:
        for frame in range(1, frames + 1):
            clock.now += 2.0
            progress.frame(frame, **FACTS, steps=5)
    return stream.getvalue()


def test_auto_is_a_line_on_a_terminal_and_plain_elsewhere():
    assert Progress(1, 2, stream=Terminal()).mode == "line"
    assert Progress(1, 2, stream=io.StringIO()).mode == "plain"
    with pytest.raises(ValueError, match="loud"):
        Progress(1, 2, mode="loud")


def test_plain_writes_a_line_per_frame_with_the_facts():
    lines = run("plain", io.StringIO()).splitlines()
    assert len(lines) == 4
    assert lines[-1] == (
        "frame 4/10  125 000 particles  38.2 ms/step  density error 0.84 %  12 s left"
    )
    assert all(line.isascii() for line in lines)


def test_line_is_rewritten_and_ends_with_a_newline(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = run("line", Terminal())
    assert text.count("\n") == 1
    assert text.endswith("left\n")
    assert text.count("\r") == 4
    assert "[#######..........." in text


def test_line_fits_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    for piece in run("line", Terminal()).replace("\n", "").split("\r"):
        assert len(piece) < 40


def test_a_shorter_line_wipes_the_longer(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    stream, clock = Terminal(), Clock()
    progress = Progress(1, 9, stream=stream, clock=clock)
    progress.frame(1, **FACTS)
    long = len(stream.getvalue())
    progress.frame(2)
    assert len(stream.getvalue()) - long >= long


def test_json_lines_are_complete():
    events = [json.loads(line) for line in run("json", io.StringIO()).splitlines()]
    assert [event["frame"] for event in events] == [1, 2, 3, 4]
    assert events[-1] == {
        "event": "frame",
        "frame": 4,
        "last": 10,
        **FACTS,
        "steps": 5,
        "seconds": 8.0,
        "seconds_left": 12.0,
    }


def test_quiet_is_silent():
    stream = Terminal()
    with Progress(1, 3, mode="quiet", stream=stream) as progress:
        progress.frame(1, **FACTS)
        progress.within(2, 0.5)
        progress.say("hello")
    assert stream.getvalue() == ""


def test_time_left_follows_the_recent_pace_and_counts_only_frames_done_here():
    """A resumed run starts at frame 51 of 100; the last frames took 4 s each."""
    clock = Clock()
    progress = Progress(51, 100, mode="quiet", stream=io.StringIO(), clock=clock)
    assert progress.seconds_left() is None
    for frame in range(51, 81):
        clock.now += 1.0 if frame < 61 else 4.0
        progress.frame(frame)
    assert progress.seconds_left() == pytest.approx(20 * 4.0)
    assert progress.seconds_left(share=0.5) == pytest.approx(19.5 * 4.0)


def test_machines_hear_of_stages_and_of_steps_but_not_of_each():
    stream, clock = io.StringIO(), Clock()
    progress = Progress(1, 2, mode="json", stream=stream, clock=clock)
    progress.stage("looking for a device")
    for _ in range(10):
        progress.within(1, 0.5, **FACTS)
        clock.now += 0.1
    stage, *steps = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert stage == {"event": "stage", "text": "looking for a device"}
    assert {(step["event"], step["frame"], step["share"]) for step in steps} == {("step", 1, 0.5)}
    assert 3 <= len(steps) <= 5


def test_within_a_frame_only_a_line_is_refreshed_and_not_too_often():
    stream = io.StringIO()
    Progress(1, 2, mode="plain", stream=stream).within(1, 0.5, **FACTS)
    assert stream.getvalue() == ""
    stream, clock = Terminal(), Clock()
    progress = Progress(1, 2, stream=stream, clock=clock)
    for _ in range(100):
        clock.now += 0.01
        progress.within(1, 0.5, **FACTS)
    assert 5 < stream.getvalue().count("\r") < 15


def test_messages_do_not_tear_the_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    with Progress(1, 3, stream=stream) as progress:
        progress.frame(1, **FACTS)
        progress.say("collider is thin")
        progress.frame(2, **FACTS)
    lines = stream.getvalue().split("\n")
    assert lines[0].split("\r")[-1] == "collider is thin"
    event = io.StringIO()
    Progress(1, 3, mode="json", stream=event).say("x")
    assert json.loads(event.getvalue()) == {"event": "message", "text": "x"}


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_that_is_gone_does_not_stop_the_run(mode):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    with Progress(1, 3, mode=mode, stream=Gone()) as progress:
        progress.frame(1, **FACTS)
        progress.say("hello")
        progress.frame(2, **FACTS)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (59.4, "59 s"), (61, "1 min 01 s"), (3600, "1 h 00 min"), (10**6, "11 d 13 h")],
)
def test_durations_in_words(seconds, words):
    assert duration(seconds) == words


def test_time_left_knows_that_later_frames_have_more_particles():
    """Frames of rising work at an even pace: the time left is that of the work left."""
    clock = Clock()
    progress = Progress(2, 10, mode="quiet", clock=clock)
    progress.weights = {frame: float(frame) for frame in range(1, 11)}
    for frame in (2, 3, 4):
        clock.now += 0.5 * frame
        progress.frame(frame)
    assert progress.seconds_left() == pytest.approx(0.5 * (5 + 6 + 7 + 8 + 9 + 10))
    assert progress.seconds_left(share=0.5) == pytest.approx(0.5 * (2.5 + 6 + 7 + 8 + 9 + 10))
