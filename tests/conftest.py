"""What every test may rely on."""

import os

# Before anything imports huggingface_hub: no test may reach for a network.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
