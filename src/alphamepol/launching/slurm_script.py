"""The script of a Slurm array: one element is one run. People can read it, change it, and submit it themselves."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from alphamepol.errors import InputError
from alphamepol.files.names import join_command_words
from alphamepol.launching.task import REFUSED, TRIES, Task
from alphamepol.settings.launch import LaunchSettings

NOTICE = 120
"""The seconds before the time limit of a job at which its run is asked to save its work."""
_PLAIN = re.compile(r"[\w/.+=,@:~-]+")
"""The paths that an #SBATCH line can hold."""

TEMPLATE = """\
#!/bin/bash
# The runs of: {command}
# Every element of this array is one run. An element that is started again continues its run from the checkpoint.
{directives}

case "$SLURM_ARRAY_TASK_ID" in
{cases}
*) echo "there is no run $SLURM_ARRAY_TASK_ID" >&2; exit {refused} ;;
esac

# Slurm sends USR1 {notice} seconds before the time limit: then the run saves its work, and waits in the queue again.
# Slurm sends TERM before it preempts, requeues or cancels the job: then Slurm itself decides whether the run goes on.
again= stopped= run=
trap 'again=yes; [ -z "$run" ] || kill -TERM "$run"' USR1
trap 'stopped=yes; [ -z "$run" ] || kill -TERM "$run"' TERM

# A run that fails is tried again from its checkpoint.
for try in {tries}; do
    {python} -m alphamepol "$@" >> {logs}/"$name".log 2>&1 &
    run=$!
    [ -z "$again$stopped" ] || kill -TERM "$run"  # the signal came before the run
    wait "$run"; status=$?
    while kill -0 "$run" 2> /dev/null; do wait "$run"; status=$?; done
    [ -z "$again$stopped" ] || break
    case "$status" in 0|{refused}) break ;; esac
done
if [ -n "$again" ] && [ "$status" -ne 0 ]; then
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
fi
exit "$status"
"""


def slurm_script(command: str, tasks: Sequence[Task], first: Sequence[Task], settings: LaunchSettings) -> str:
    """Return the text of the script.

    **Arguments**

    - `command`: the command line that has planned the runs, for the reader.
    - `tasks`: the runs. The number of a run is its place among them.
    - `first`: the runs that the script starts if somebody submits it without options.
    - `settings`: the cores and GPUs of each run, and further options of sbatch.
    """
    logs = tasks[0].log.parent
    for path in (Path.cwd(), Path(sys.executable), logs):
        if not _PLAIN.fullmatch(str(path)):
            raise InputError(
                f"on: slurm was given, and its scripts cannot name the path {path}; use letters, digits and _-.+=@:~,"
            )
    numbers = {task.name: number for number, task in enumerate(tasks)}
    options = [
        "job-name=alphamepol",
        f"array={slurm_array([numbers[task.name] for task in first], settings.at_once)}",
        f"chdir={Path.cwd()}",
        f"output={logs.absolute() / 'slurm.log'}",
        "open-mode=append",
        "requeue",
        f"signal=B:USR1@{NOTICE}",
        *([] if settings.cores is None else [f"cpus-per-task={settings.cores}"]),
        *([f"gres=gpu:{settings.gpus}"] if settings.gpus else []),
        *settings.slurm,
    ]
    cases = [
        f"{number})\n    name={join_command_words([task.name])}\n    set -- {join_command_words(task.words)}\n    ;;"
        for number, task in enumerate(tasks)
    ]
    return TEMPLATE.format(
        command=command,
        directives="\n".join(f"#SBATCH --{option}" for option in options),
        cases="\n".join(cases),
        refused=REFUSED,
        notice=NOTICE,
        tries=" ".join(str(number + 1) for number in range(TRIES)),
        python=sys.executable,
        logs=logs.absolute(),
    )


def slurm_array(numbers: Sequence[int], at_once: int | None) -> str:
    """Return the numbers of elements as sbatch reads them, such as 0-3,7%2. `at_once` elements may run together."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    said = ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)
    return said if at_once is None else f"{said}%{at_once}"
