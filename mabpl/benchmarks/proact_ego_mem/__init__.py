"""ProactEgoMem: released files and submissions as tables, their rules, the memory probe (QA), and events."""

from mabpl.benchmarks.proact_ego_mem.qa import score_qa as score_qa
from mabpl.benchmarks.proact_ego_mem.release import Release as Release
from mabpl.benchmarks.proact_ego_mem.release import read_release as read_release
from mabpl.benchmarks.proact_ego_mem.submissions import Submissions as Submissions
from mabpl.benchmarks.proact_ego_mem.submissions import read_submissions as read_submissions
