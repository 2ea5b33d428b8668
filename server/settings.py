"""Settings of the service, from ``TILEFLEET_*`` environment variables."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


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
    board_threads: int = Field(
        default=1, ge=1, description="Cores of this machine that are its board; builds get the others."
    )
    max_model_mb: int = Field(default=512, ge=1, description="Largest accepted model file.")
    max_log_mb: int = Field(default=64, ge=1, description="Largest accepted tuning log.")
    allowed_hosts: tuple[str, ...] = Field(
        default=("127.0.0.1", "localhost", "[::1]"),
        description="Values of the Host header that are answered; the defence against DNS rebinding.",
    )

    @property
    def home_dir(self) -> Path:
        """The state folder with ``~`` resolved."""
        return self.home.expanduser()

    @property
    def database(self) -> str:
        """The SQLAlchemy URL in force."""
        return self.database_url or f"sqlite:///{self.home_dir / 'tilefleet.sqlite3'}"
