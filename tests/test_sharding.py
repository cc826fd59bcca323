"""More than one device: data and params spread over eight virtual ones, and over two processes."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

import jax
import numpy as np

from tests import on_devices


def test_params_spread_over_devices_give_the_same_iterates_and_a_state_spread_likewise() -> None:
    run_at_once(
        ["params_spread", "Auto", "ball", "box", "simplex", "entropic_simplex"],
        ["solve_spread", "l1_ball"],
        devices=8,
    )


def test_params_with_explicit_sharding_give_the_same_iterates_and_a_state_sharded_likewise() -> (
    None
):
    run_at_once(["params_spread", "Explicit", "box", "simplex"], devices=8)


def test_losses_averaged_over_devices_with_shard_map_give_the_iterates_of_one_device() -> None:
    run_at_once(
        ["rows_spread", "simplex", "half-step", "opaque"],
        ["rows_spread", "ball", "half-step"],
        devices=8,
    )


def test_two_processes_with_half_the_rows_each_reach_the_params_of_one_process() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    printed = run_at_once(
        ["half_of_the_rows", "0", port], ["half_of_the_rows", "1", port], devices=1
    )
    first, second = (json.loads(text.splitlines()[-1]) for text in printed)  # after Gloo's own
    assert first == second
    alone = on_devices.regression(on_devices.FEATURES, on_devices.TARGETS)
    np.testing.assert_allclose(first, alone, atol=1e-5)


def run_at_once(*commands: list[str], devices: int, timeout: float = 120) -> list[str]:
    """Run each command of on_devices in a process of its own, and return what they print."""
    root = pathlib.Path(__file__).parent.parent
    environment = os.environ | {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} "
        f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir or "",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "PYTHONPATH": str(root),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.on_devices", *command],
            env=environment,
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]

    def kill_all() -> None:
        for process in processes:
            process.kill()

    too_late = threading.Timer(timeout, kill_all)
    too_late.start()
    try:
        outputs, errors = zip(*(process.communicate() for process in processes), strict=True)
    finally:
        too_late.cancel()
        kill_all()
    assert not any(process.returncode for process in processes), "\n".join(errors)
    return list(outputs)
