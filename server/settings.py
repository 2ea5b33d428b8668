"""Settings of the service, from ``TILEFLEET_*`` environment variables."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from worker.fleet.sim_models import SIM_MODELS


class Settings(BaseSettings):
    """What the operator chooses; every field is the environment variable ``TILEFLEET_<NAME>``."""

    model_config = SettingsConfigDict(env_prefix="TILEFLEET_", extra="ignore")

    home: Path = Field(default=Path("~/.tilefleet"), description="State folder: models and the SQLite file.")
    database_url: str | None = Field(
        default=None, description="SQLAlchemy URL; unset means a SQLite file in the state folder."
    )
    redis_url: str | None = Field(
        default=None, description="Carries job events between processes; unset means in process."
    )
    scheduler: str | None = Field(
        default=None, description="Address of a shared Dask scheduler; unset means an embedded cluster."
    )
    boards: str = Field(
        default="host",
        description="The embedded cluster's boards, comma-separated: host (this machine) and simulated ones.",
    )
    board_threads: int = Field(
        default=1, ge=1, description="Cores of this machine that are its board; builds get the others."
    )
    max_model_mb: int = Field(default=512, ge=1, description="Largest accepted model file.")
    max_log_mb: int = Field(default=64, ge=1, description="Largest accepted tuning log.")
    allowed_hosts: tuple[str, ...] = Field(
        default=("127.0.0.1", "localhost", "[::1]"),
        description="Values of the Host header that are answered; the defence against DNS rebinding.",
    )

    @field_validator("boards")
    @classmethod
    def _known_boards(cls, value: str) -> str:
        unknown = [name for name in _names(value) if name not in ("host", *SIM_MODELS)]
        if unknown or not _names(value):
            known = ", ".join(["host", *sorted(SIM_MODELS)])
            what = f"unknown board {unknown[0]!r}" if unknown else "no board named"
            raise ValueError(f"{what}; there are: {known}")
        return value

    @property
    def board_names(self) -> tuple[str, ...]:
        """The boards one by one."""
        return _names(self.boards)

    @property
    def home_dir(self) -> Path:
        """The state folder with ``~`` resolved."""
        return self.home.expanduser()

    @property
    def database(self) -> str:
        """The SQLAlchemy URL in force."""
        return self.database_url or f"sqlite:///{self.home_dir / 'tilefleet.sqlite3'}"


def _names(value: str) -> tuple[str, ...]:
    """The distinct names in a comma-separated list."""
    return tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
