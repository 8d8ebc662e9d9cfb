"""Progress bars: what they count, the rate, the time left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from happycat.cli.display import Display, Done, Results, clock, print_line


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def display(screen) -> Display:
    return Display(Console(file=screen, width=120, highlight=False))


def last_line(screen: io.StringIO) -> str:
    return screen.getvalue().strip().splitlines()[-1]


def test_a_bar_shows_title_count_rate_and_time(display, screen):
    with display:
        advance = display.step("reading")
        advance(0, total=1200)  # the total is known when the folder was looked through
        for _ in range(12):
            advance(100)
    assert last_line(screen).startswith("reading ")
    assert "1,200/1,200" in last_line(screen)
    assert "/s" in last_line(screen)
    assert last_line(screen).endswith("0:00")
    assert display.done == {"reading": Done(1200, 1200)}


def test_the_time_left_is_shown_while_it_goes_on(display):
    now = [0.0]
    display.step("extracting features", 100)
    bars = display._bars
    bars.get_time = lambda: now[0]
    (task,) = bars.tasks
    task._get_time = bars.get_time
    task.start_time = 0.0
    for _ in range(4):
        now[0] += 5
        bars.update(task.id, advance=10)
    shown = [str(column.render(task)) for column in bars.columns[2:5]]
    display.close()
    assert shown == [" 40/100", "2.0/s", "0:30 left"]


def test_a_step_that_stopped_early_is_shown_full(display, screen):
    advance = display.step("counting new classes", 10)
    advance(4)
    display.step("discovering")
    assert "4/4" in screen.getvalue()
    display.close()


def test_a_step_that_failed_is_not_shown_full(display, screen):
    display.step("extracting features", 10)(4)
    with pytest.raises(ValueError), display:
        raise ValueError
    assert " 4/10" in last_line(screen)


def test_a_loss_stands_behind_the_bar(display, screen):
    with display:
        display.step("training", 2)(2, loss=0.25)
    assert last_line(screen).endswith("loss 0.250")


def test_control_characters_are_written_out(display, screen, capsys):
    with display:
        display.message("from a\x1b[31m\nb [bold]c[/] :cat:")
    assert last_line(screen) == r"from a\x1b[31m\nb [bold]c[/] :cat:"
    print_line("written: \x9b2J\x07.cat")
    assert capsys.readouterr().out == "written: \\x9b2J\\x07.cat\n"


def test_times():
    assert (clock(7.9), clock(61), clock(3725)) == ("0:07", "1:01", "1:02:05")


def test_no_escape_sequence_of_a_text_reaches_the_terminal(screen):
    Results(file=screen, width=120, highlight=False, markup=False).print(
        "a\x1b[2Jb\nsecond \x9b line", 7, soft_wrap=True
    )
    assert screen.getvalue() == "a\\x1b[2Jb\nsecond \\x9b line 7\n"
