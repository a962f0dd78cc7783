"""ProactEgoMem: released files and submissions as tables, their rules, and the memory probe (QA)."""

from mabpl.benchmarks.proact_ego_mem.release import Release as Release
from mabpl.benchmarks.proact_ego_mem.release import read_release as read_release
