"""first tables

Revision ID: 0001
Revises: none
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# SQLite counts rows only in a column that is exactly INTEGER.
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "models",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("shapes", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("extraction", sa.JSON(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_models")),
    )
    op.create_table(
        "targets",
        sa.Column("key", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_targets")),
    )
    op.create_table(
        "workloads",
        sa.Column("key", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("flops", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_workloads")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("model_hash", sa.String(length=64), nullable=True),
        sa.Column("workload_key", sa.String(length=16), nullable=True),
        sa.Column("target_key", sa.String(length=16), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("clock", sa.String(length=100), nullable=False),
        sa.Column("strategy", sa.String(length=32), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("budget_trials", sa.Integer(), nullable=True),
        sa.Column("budget_seconds", sa.Float(precision=53), nullable=True),
        sa.Column("shapes", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=True),
        sa.Column("beat", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished", sa.DateTime(timezone=True), nullable=True),
        sa.Column("elapsed_s", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(["model_hash"], ["models.hash"], name=op.f("fk_jobs_model_hash_models")),
        sa.ForeignKeyConstraint(["target_key"], ["targets.key"], name=op.f("fk_jobs_target_key_targets")),
        sa.ForeignKeyConstraint(
            ["workload_key"], ["workloads.key"], name=op.f("fk_jobs_workload_key_workloads")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_jobs_state"), ["state"], unique=False)

    op.create_table(
        "peaks",
        sa.Column("target_key", sa.String(length=16), nullable=False),
        sa.Column("threads", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("gflops", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(["target_key"], ["targets.key"], name=op.f("fk_peaks_target_key_targets")),
        sa.PrimaryKeyConstraint("target_key", "threads", name=op.f("pk_peaks")),
    )
    op.create_table(
        "records",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("workload_key", sa.String(length=16), nullable=False),
        sa.Column("target_key", sa.String(length=16), nullable=False),
        sa.Column("clock", sa.String(length=100), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("config_key", sa.String(length=16), nullable=False),
        sa.Column("kernel", sa.String(length=64), nullable=False),
        sa.Column("kernel_version", sa.Integer(), nullable=False),
        sa.Column("ranking_s", sa.Float(precision=53), nullable=True),
        sa.Column("error", sa.String(length=32), nullable=True),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["target_key"], ["targets.key"], name=op.f("fk_records_target_key_targets")),
        sa.ForeignKeyConstraint(
            ["workload_key"], ["workloads.key"], name=op.f("fk_records_workload_key_workloads")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_records")),
        sa.UniqueConstraint(
            "workload_key",
            "target_key",
            "clock",
            "config_key",
            "kernel_version",
            "threads",
            name="uq_records_identity",
        ),
    )
    with op.batch_alter_table("records", schema=None) as batch_op:
        batch_op.create_index(
            "ix_records_best",
            ["workload_key", "target_key", "clock", "threads", "ranking_s"],
            unique=False,
            sqlite_where=sa.text("ranking_s IS NOT NULL"),
            postgresql_where=sa.text("ranking_s IS NOT NULL"),
        )
        batch_op.create_index(batch_op.f("ix_records_target_key_id"), ["target_key", "id"], unique=False)

    op.create_table(
        "tasks",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("job_id", ROW_ID, nullable=False),
        sa.Column("workload_key", sa.String(length=16), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("reused", sa.Integer(), nullable=False),
        sa.Column("errors", sa.JSON(), nullable=False),
        sa.Column("messages", sa.JSON(), nullable=False),
        sa.Column("best_id", ROW_ID, nullable=True),
        sa.Column("recommended_id", ROW_ID, nullable=True),
        sa.ForeignKeyConstraint(["best_id"], ["records.id"], name=op.f("fk_tasks_best_id_records")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_tasks_job_id_jobs")),
        sa.ForeignKeyConstraint(
            ["recommended_id"], ["records.id"], name=op.f("fk_tasks_recommended_id_records")
        ),
        sa.ForeignKeyConstraint(
            ["workload_key"], ["workloads.key"], name=op.f("fk_tasks_workload_key_workloads")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
        sa.UniqueConstraint("job_id", "workload_key", name=op.f("uq_tasks_job_id_workload_key")),
    )
    op.create_table(
        "trials",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("job_id", ROW_ID, nullable=False),
        sa.Column("task_id", ROW_ID, nullable=False),
        sa.Column("record_id", ROW_ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("reused", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_trials_job_id_jobs")),
        sa.ForeignKeyConstraint(["record_id"], ["records.id"], name=op.f("fk_trials_record_id_records")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_trials_task_id_tasks")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trials")),
        sa.UniqueConstraint("task_id", "record_id", name=op.f("uq_trials_task_id_record_id")),
    )
    with op.batch_alter_table("trials", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_trials_job_id"), ["job_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_trials_record_id"), ["record_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("trials", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_trials_record_id"))
        batch_op.drop_index(batch_op.f("ix_trials_job_id"))

    op.drop_table("trials")
    op.drop_table("tasks")
    with op.batch_alter_table("records", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_records_target_key_id"))
        batch_op.drop_index(
            "ix_records_best",
            sqlite_where=sa.text("ranking_s IS NOT NULL"),
            postgresql_where=sa.text("ranking_s IS NOT NULL"),
        )

    op.drop_table("records")
    op.drop_table("peaks")
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_jobs_state"))

    op.drop_table("jobs")
    op.drop_table("workloads")
    op.drop_table("targets")
    op.drop_table("models")
