"""Export of a trained policy to a file that runs without Headrace."""

from headrace.train.play.export.policy_file import Exported, check_kind, export_policy
from headrace.train.play.export.torch_files import METADATA

__all__ = ["METADATA", "Exported", "check_kind", "export_policy"]
