import shutil

from fedsarsa import _numba
from fedsarsa.engines import fast_path_rounds


def test_compiled_code_is_kept_apart_by_the_sources_that_go_into_it(tmp_path):
    copy = tmp_path / "fedsarsa"
    shutil.copytree(_numba.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert _numba.fingerprint(copy) == _numba.fingerprint(_numba.PACKAGE)
    piece = copy / "learning" / "choice.py"
    piece.write_text(piece.read_text() + "\n# changed\n")
    assert _numba.fingerprint(copy) != _numba.fingerprint(_numba.PACKAGE)


def test_kernels_use_that_folder():
    assert _numba.fingerprint(_numba.PACKAGE) in fast_path_rounds.train.stats.cache_path


def test_a_chosen_folder_is_respected(tmp_path):
    assert _numba.cache_folder(str(tmp_path)).startswith(str(tmp_path))
