"""Which processor computes, in which dtype, and whether it can be trusted."""

from pathlib import Path

import pytest
import torch

from ctxviz.errors import SettingsError
from ctxviz.models import devices, load_model
from tests.tiny_models import save_tiny_folder


@pytest.fixture
def folder(tmp_path) -> Path:
    return save_tiny_folder(tmp_path / "tiny")


class TestDevices:
    @pytest.mark.parametrize("device", ["", "gpu", "cpu:1", "meta", "cuda:99", "mps", "\0", "tpu", 3, "cpu,"])
    def test_unknown_or_absent(self, folder, device):
        with pytest.raises(SettingsError):
            load_model(str(folder), device=device)

    def test_no_float64_on_mps(self):
        with pytest.raises(SettingsError, match="no float64"):
            devices.check_dtype("float64", (torch.device("mps"),))

    def test_unknown_dtype_and_threads(self, folder):
        with pytest.raises(SettingsError, match="Unknown dtype 'int8'"):
            load_model(str(folder), dtypes=("int8",))
        for threads in (0, -1, 10**9):
            with pytest.raises(SettingsError, match="threads"):
                load_model(str(folder), threads=threads)

    def test_auto_prefers_what_there_is(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
        assert devices.named(devices.choose("auto")) == "cpu"
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
        assert devices.named(devices.choose("auto")) == "mps"
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
        assert devices.named(devices.choose("auto")) == "cuda:0,cuda:1,cuda:2"

    def test_several_by_name(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
        assert devices.choose("cuda:2, cuda:0") == (torch.device("cuda:2"), torch.device("cuda:0"))
        for shared in ("cuda:1,cuda:1", "cuda,cuda:0", "cpu,cuda:1", "cpu,cpu"):
            with pytest.raises(SettingsError, match=r"cannot be shared between .*cuda:0,cuda:1"):
                devices.choose(shared)
        with pytest.raises(SettingsError, match="no device cuda:3;"):
            devices.choose("cuda:0,cuda:3")

    def test_the_self_test_warns_of_a_device_that_computes_otherwise(self):
        assert devices.self_test(torch.device("cpu")) is None
        # The meta device computes nothing, so bringing its result back fails.
        warning = devices.self_test(torch.device("meta"))
        assert warning is not None
        assert "use the cpu device" in warning

    def test_the_self_tests_tolerance(self):
        logits = torch.linspace(-3, 3, 50)
        assert devices.disagreement(logits, logits + 1e-5) is None
        assert devices.disagreement(logits, logits + 0.1) is not None
        assert devices.disagreement(logits, logits * torch.nan) is not None
