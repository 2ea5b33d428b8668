"""Events of jobs and boards, within a process or over Redis."""
