"""The engine that steps simulations on the cores of a CPU, with MuJoCo's own batches."""

# MuJoCo's compiled modules come without types.
# pyright: reportAttributeAccessIssue=false

import threading
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mujoco.batch
import numpy as np
from jaxtyping import Array, Float, Int

from alphamepol.compute.machine import machine_cores
from alphamepol.environments.mujoco.library import mujoco, silent_mujoco_warnings
from alphamepol.environments.mujoco.physics import Moved, PhysicsState, pack_physics_state, unpack_moved
from alphamepol.errors import InputError

FULL = [getattr(mujoco.mjtWarning, f"mjWARN_{part}FULL").value for part in ("CONTACT", "CNSTR")]
"""The numbers of the warnings that contacts or constraints were dropped."""
BAD = [getattr(mujoco.mjtWarning, f"mjWARN_BAD{part}").value for part in ("QPOS", "QVEL", "QACC", "CTRL")]
"""The numbers of the warnings that a simulation diverges. MuJoCo then resets it."""


class CpuPhysics:
    """An engine on the cores of this machine. A compiled program calls it once per control step for all simulations.

    A simulation depends neither on the others nor on the number of threads. The numbers of a state are rounded to
    float32 after each control step; MuJoCo computes in float64 in between.
    """

    kind = "cpu"

    def __init__(self, models: Sequence[Any], frame_skip: int, threads: int | None = None, reason: str = ""):
        """`reason` says why the GPU of this machine does not step the models. It is empty if there is no GPU."""
        self._reason = reason
        self.models = models
        self._frame_skip = frame_skip
        self._threads = threads or machine_cores()
        self._stage = (mujoco.mjtStage.mjSTAGE_ACC if models[0].nsensordata else mujoco.mjtStage.mjSTAGE_NONE).value
        first = models[0]
        self._splits = np.cumsum([1, first.nq, first.nv])
        self._batch: Any = None
        self._numbers = np.zeros(0, int)
        self._complaints: set[tuple[int, str]] = set()
        self._lock = threading.Lock()  # JAX may call from any thread

    def step(self, number: Int[Array, ""], state: PhysicsState, controls: Float[Array, " controls"]) -> Moved:
        size = len(state.qpos) + len(state.qvel) + len(state.act) + len(state.sensors)
        moved = jax.pure_callback(
            self._step_rows,
            jax.ShapeDtypeStruct((size,), jnp.float32),
            *(number, pack_physics_state(state), controls),
            vmap_method="broadcast_all",
        )
        return unpack_moved(moved, state)

    @property
    def about(self) -> str:
        said = f"MuJoCo steps the simulations on {self._threads} core{'s' * (self._threads > 1)}"
        return f"{said} ({self._reason})" if self._reason else said

    def take_complaints(self) -> list[tuple[int, str]]:
        with self._lock:
            found, self._complaints = sorted(self._complaints), set()
        return found

    def _step_rows(self, numbers: Any, packed: Any, controls: Any) -> np.ndarray:
        """Step all rows. The arguments have any number of leading axes, and so has the result."""
        lead = np.shape(numbers)
        numbers = np.asarray(numbers).reshape(-1)
        packed, controls = (np.asarray(part).reshape(len(numbers), np.shape(part)[-1]) for part in (packed, controls))
        with self._lock:
            batch = self._batch_for(numbers)
            # Rows that were lost in an earlier step stay lost, without another complaint.
            alive = np.isfinite(packed).all(1)
            whole = alive & np.isfinite(controls).all(1)
            rows = slice(None) if whole.all() else np.flatnonzero(whole)
            times, qpos, qvel, act = np.split(packed, self._splits, axis=1)
            for field, values in (
                ("time", times[:, 0]),
                ("qpos", qpos),
                ("qvel", qvel),
                ("act", act),
                ("ctrl", controls),
            ):
                batch.bind(field)[rows] = values[rows]
            batch.warning[:] = 0
            failed = np.zeros(len(numbers), bool)
            with silent_mujoco_warnings():
                try:
                    batch.step(ids=None if whole.all() else rows, nstep=self._frame_skip, stage=self._stage)
                except mujoco.batch.SimulationError as error:
                    failed[error.ids] = True
            diverged = (alive & ~whole) | batch.warning[:, BAD, 1].any(axis=1)
            lost, full = ~alive | diverged | failed, batch.warning[:, FULL, 1].any(axis=1)
            for kind, which in (("memory", failed), ("diverged", diverged), ("contacts", full)):
                self._complaints |= {(int(number), kind) for number in np.unique(numbers[which])}
            moved = [batch.bind(field) for field in ("qpos", "qvel", "act", "sensordata")]
            reached = np.concatenate(moved, axis=1, dtype=np.float32, casting="same_kind")
            reached[lost] = np.nan  # a row that has diverged is not a number from now on
            return reached.reshape(*lead, reached.shape[1])

    def _batch_for(self, numbers: Int[np.ndarray, " rows"]) -> Any:
        """Return the batch whose simulations have the models of these members."""
        batch = self._batch
        if batch is None or batch.nsim != len(numbers):
            batch = self._batch = mujoco.batch.Batch(self.models[0], len(numbers), self._threads)
            batch.bind("sensordata")  # otherwise the first step would leave the readings at 0
            self._numbers = np.zeros(0, int)
        if not np.array_equal(self._numbers, numbers):
            batch.set_models([self._model_of(number) for number in numbers.tolist()])
            self._numbers = numbers.copy()
        return batch

    def _model_of(self, number: int) -> Any:
        """Return the model of a member. If it cannot be made, complain, and return that of the first member."""
        try:
            return self.models[number]
        except InputError as error:
            self._complaints.add((number, str(error)))
            return self.models[0]
