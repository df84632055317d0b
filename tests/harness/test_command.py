"""`vdev-check`: programs run with every launch checked, files read, every format, exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cpu.test_samples import ARGUMENTS, SAMPLES

PROGRAM = """
import sys
import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
  out[i] += in[i + SHIFT];
}
''').build([f"-DSHIFT={sys.argv[1]}"])
given = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.arange(64, dtype=np.int32))
out = cl.Buffer(context, cl.mem_flags.READ_WRITE, 256)
if sys.argv[2] == "fill":
    cl.enqueue_fill_buffer(queue, out, np.int32(0), 0, 256)
for _ in range(3):
    program.k(queue, (64,), (16,), out, given)
queue.finish()
print("done")
sys.exit(int(sys.argv[3]))
"""


def check(*arguments: str, folder: Path, **switches: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "vdev.cli.check", *arguments],
        cwd=folder, env=environment | {"PYOPENCL_NO_CACHE": "1"} | switches, text=True, capture_output=True, timeout=900, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("command")
    (found / "program.py").write_text(PROGRAM)
    (found / "wrong.cl").write_text("kernel void k(global int *a) {\n  int t[4];\n  a[0] = t[7] + b;\n}\n")
    (found / "odd.cl").write_text("kernel void k(global int *a) {\n  int t[4] = {N};\n  a[0] = t[7];\n}\n")
    return found


def test_a_program_without_mistakes(folder: Path) -> None:
    done = check("program.py", "0", "fill", "0", folder=folder)

    assert done.returncode == 0, done.stderr
    assert (
        done.stdout
        == "done\nvdev-check: 0 findings; 3 launches checked\n  kernel k: split over several workers\n"
    )


def test_the_programs_own_status(folder: Path) -> None:
    assert check("program.py", "0", "fill", "5", folder=folder).returncode == 5


def test_a_program_with_mistakes(folder: Path) -> None:
    done = check("--most", "1", "program.py", "1", "leave", "0", folder=folder)

    assert done.returncode == 1
    assert (
        "program.py:11:13: out-of-bounds: kernel k reads 4 bytes at byte 256 of in, which has 256"
        in done.stdout
    )
    assert "program.py:11:3: unwritten-value: kernel k changes 4 bytes at byte" in done.stdout
    assert (
        "2 findings; 1 launch checked\n  kernel k: split over several workers\n"
        "  not checked: 2 launches: earlier launches of the kernel were checked (--most)"
    ) in done.stdout


def test_bytes_that_launches_have_written_count_as_written(folder: Path) -> None:
    """The first launch is told of, the others add to what it has left."""
    done = check("--format", "json", "program.py", "0", "leave", "0", folder=folder)
    (finding,) = json.loads(done.stdout)

    assert (finding["kind"], finding["count"]) == ("unwritten-value", 64)


def test_annotations(folder: Path) -> None:
    done = check("--format", "github", "program.py", "1", "fill", "0", folder=folder)

    assert done.returncode == 1
    assert done.stdout.startswith(
        "::error file=program.py,line=11,col=13,title=out-of-bounds::kernel k reads 4 bytes"
    )
    assert "done" in done.stderr


READS_A_FILE = """
import os
import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels", "late.cl")) as file:
    program = cl.Program(context, file.read()).build()
a = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(64, np.int32))
program.late(queue, (64,), (16,), a)
queue.finish()
"""
LATE = "// one too far\nkernel void late(global int *a) {\n  a[get_global_id(0) + 1] = 1;\n}\n"


def test_a_finding_names_the_file_that_the_program_read(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kernels" / "late.cl").write_text(LATE)
    (tmp_path / "reads.py").write_text(READS_A_FILE)
    here = check("--format", "github", "reads.py", folder=tmp_path)
    outside = check("--format", "github", "../reads.py", folder=tmp_path / "elsewhere")

    assert here.stdout.startswith("::error file=kernels/late.cl,line=3,col=3,title=out-of-bounds::")
    assert outside.stdout.startswith("::error file=<kernel>,line=3,col=3,title=out-of-bounds::")


def test_sarif(folder: Path) -> None:
    log = json.loads(check("--format", "sarif", "program.py", "1", "fill", "0", folder=folder).stdout)
    (result,) = log["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]

    assert log["version"] == "2.1.0"
    assert result["ruleId"] in {rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]}
    assert place["artifactLocation"]["uri"] == "program.py"
    assert place["region"]["startLine"] == 11
    assert "in[i + SHIFT]" in place["region"]["snippet"]["text"]


def test_a_file_with_errors_and_one_with_warnings(folder: Path) -> None:
    wrong, odd = check("wrong.cl", folder=folder), check("odd.cl", "-DN=3", folder=folder)

    assert (wrong.returncode, odd.returncode) == (1, 1)
    assert "wrong.cl:3:17: compiler: use of undeclared identifier 'b'" in wrong.stdout
    assert "odd.cl:3:10: compiler: array index 7 is past the end" in odd.stdout
    assert odd.stdout.endswith("vdev-check: 1 finding\n")


def test_a_file_with_comments_in_another_encoding_than_utf_8(tmp_path: Path) -> None:
    text = "// carré\nkernel void k(global int *a) {\n  int t[4] = {1}; a[0] = t[7]; // é\n}\n"
    (tmp_path / "old.cl").write_text(text, "latin-1")
    (tmp_path / "program.py").write_text(
        "import sys\nfrom pathlib import Path\nimport numpy as np\nfrom vdev.harness import FindingsError, Program\n"
        "try:\n    Program(Path('old.cl')).k(np.zeros(1, np.int32), global_size=1)\n"
        "except FindingsError as error:\n    sys.exit(str(error))\n"
    )
    done = check("old.cl", folder=tmp_path)
    called = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.stdout.startswith("old.cl:3:26: compiler: array index 7 is past the end"), done.stderr
    assert "old.cl:3:" in called.stderr


def test_wrong_command_lines(folder: Path) -> None:
    for arguments in ((), ("--format", "xml", "odd.cl"), ("nothing.cl",), ("nothing.py",), ("-m",), ("-c",)):
        done = check(*arguments, folder=folder)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert done.stderr.splitlines()[-1].startswith("vdev-check: "), done.stderr


@pytest.mark.parametrize(
    "name", ["bitonic_sort", "image_pyramid", "matrix_multiplication", "nbody", "reduction"]
)
def test_samples_raise_no_alarm(name: str, tmp_path: Path) -> None:
    done = check(str(SAMPLES / f"{name}.py"), *ARGUMENTS[name].split(), folder=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "vdev-check: 0 findings; " in done.stdout
    assert "not checked" not in done.stdout


BARRIER = """
import numpy as np, pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void parts(global int *a) {
  local int t[16];
  t[get_local_id(0)] = a[get_global_id(0)];
  if (get_local_id(0) < 8)
    barrier(CLK_LOCAL_MEM_FENCE);
  a[get_global_id(0)] = t[get_local_id(0)];
}''').build()
buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(64, np.int32))
program.parts(queue, (64,), (16,), buffer)
queue.finish()
print("launched")
"""


def test_a_launch_that_may_hang_is_not_made(folder: Path) -> None:
    (folder / "barrier.py").write_text(BARRIER)
    done = check("barrier.py", folder=folder)

    assert done.returncode == 1
    assert "launched" not in done.stdout.splitlines()
    assert "divergent-barrier: kernel parts" in done.stdout
    assert (
        "NotLaunched: kernel parts is not launched: not all work-items reach the barrier on line 11"
        in done.stderr
    )


def test_findings_outlive_the_program(folder: Path) -> None:
    """Its own launch may end the process, as an access outside a buffer does on a CPU."""
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    (folder / "killed.py").write_text(PROGRAM.replace("queue.finish()", killed))
    done = check("killed.py", "1", "leave", "0", folder=folder)

    assert done.returncode == 1
    assert (
        "killed.py:11:13: out-of-bounds: kernel k reads 4 bytes at byte 256 of in, which has 256"
        in done.stdout
    )
    assert "2 findings; 1 launch checked" in done.stdout
    assert "the program was ended by a signal: launches after its last finding are not counted" in done.stdout
    assert "the program ended with status 137" in done.stdout


def test_an_interrupted_program_says_what_it_has_found(folder: Path) -> None:
    """A terminal interrupts both processes."""
    both = "import os, signal, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(2); raise KeyboardInterrupt"
    (folder / "interrupted.py").write_text(PROGRAM.replace("queue.finish()", both))
    done = check("interrupted.py", "1", "fill", "0", folder=folder)

    assert done.returncode == 1
    assert "1 finding; 3 launches checked" in done.stdout
    assert "ended by a signal" not in done.stdout
    assert "the program ended with status 130" in done.stdout


LARGE = """
import numpy as np, pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, "kernel void fill(global int *a) { a[get_global_id(0)] = 7; }").build()
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 1 << 24)
program.fill(queue, (1 << 10,), (16,), buffer)
found = np.empty(1, np.int32)
cl.enqueue_copy(queue, found, buffer)
assert found[0] == 7
"""


def test_buffers_too_large_to_be_copied_are_reported(folder: Path) -> None:
    (folder / "large.py").write_text(LARGE)
    done = check("large.py", folder=folder, VDEV_CHECK_MEMORY="1M")

    assert done.returncode == 0, done.stderr
    reason = (
        "kernel fill: copies of its buffers would take 33.6 MB, and the limit is 1.0 MB (VDEV_CHECK_MEMORY)"
    )
    assert f"not checked: 1 launch: {reason}" in done.stdout
