"""Settings of the service, from ``TILEFLEET_*`` environment variables."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from server.notices.places import Place, places
from worker.fleet.fleet_file import Fleet, FleetError, fleet_of, read_fleet, split_names
from worker.fleet.times import USUAL, FleetTimes
from worker.private_folder import keep_private


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
    fleet: Path | None = Field(
        default=None, description="A fleet file, which says what boards there are in place of `boards`."
    )
    board_threads: int = Field(
        default=1, ge=1, description="Cores of this machine that are its board; builds get the others."
    )
    times: FleetTimes = Field(default=USUAL, description="Deadlines and periods of the fleet.")
    resume: bool = Field(
        default=True, description="Go on by itself with jobs whose process died; else they are interrupted."
    )
    models: Path | None = Field(
        default=None, description="Folder of the models, shared by coordinators that share a database."
    )
    max_model_mb: int = Field(
        default=512, ge=1, description="Largest accepted model file, its data included."
    )
    max_log_mb: int = Field(default=64, ge=1, description="Largest accepted tuning log.")
    notify: tuple[str, ...] = Field(
        default=(),
        description="Where notices go: https://... (JSON), slack+https://... and mailto:... (needs smtp).",
    )
    smtp: str | None = Field(
        default=None, description="Mail server: smtp://user:password@host:587?from=a@b, or smtps://."
    )
    notify_offline_s: float = Field(
        default=600.0, ge=0, description="Seconds after which a board that is offline is worth a notice."
    )
    notify_disk_mb: int = Field(
        default=1024, ge=0, description="Free MB of the state folder's disk below which there is a notice."
    )
    notify_report: bool = Field(
        default=True, description="Send a report of the fleet each Monday (UTC) to where notices go."
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=("127.0.0.1", "localhost", "[::1]"),
        description="Values of the Host header that are answered; the defence against DNS rebinding.",
    )

    @model_validator(mode="after")
    def _good_fleet(self) -> Self:
        try:
            _ = self.plan
        except FleetError as error:
            raise ValueError(f"TILEFLEET_{'FLEET' if self.fleet else 'BOARDS'}: {error}") from None
        return self

    @model_validator(mode="after")
    def _good_places(self) -> Self:
        try:
            _ = self.places
        except ValueError as error:
            raise ValueError(f"TILEFLEET_NOTIFY: {error}") from None
        return self

    @property
    def places(self) -> list[Place]:
        """Where notices go; raises ValueError."""
        return places(self.notify, self.smtp)

    @cached_property
    def plan(self) -> Fleet:
        """The fleet: that of the file, or of ``boards``; raises FleetError."""
        if self.fleet:
            return read_fleet(self.fleet.expanduser())
        return fleet_of(split_names(self.boards), self.board_threads)

    @property
    def host_threads(self) -> int:
        """Cores of this machine that are its board; 0 when it is none."""
        return self.plan.host.threads if self.plan.host else 0

    @property
    def home_dir(self) -> Path:
        """The state folder with ``~`` resolved."""
        return self.home.expanduser()

    @property
    def models_dir(self) -> Path:
        """Where the models are."""
        return self.models.expanduser() if self.models else self.home_dir / "models"

    def keep_private(self) -> None:
        """Make the state folder, for this user alone: models and records are nobody else's."""
        keep_private(self.home_dir)

    @property
    def database(self) -> str:
        """The SQLAlchemy URL in force."""
        return self.database_url or f"sqlite:///{self.home_dir / 'tilefleet.sqlite3'}"
