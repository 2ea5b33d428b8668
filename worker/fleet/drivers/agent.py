"""Boards of kind ``agent``: our agent, started elsewhere with ``--bind`` and a token."""

from __future__ import annotations

from typing import Literal

from worker.fleet.drivers.rpc import AddressSpec, RpcBoard
from worker.fleet.drivers.spec import Address, split_address
from worker.fleet.drivers.token_file import TokenFile, read_tokens, why_no_token


class AgentSpec(AddressSpec):
    """Our agent at an address, which serves whoever knows its token."""

    kind: Literal["agent"] = "agent"
    address: Address
    token_file: TokenFile

    @property
    def where(self) -> str:
        """See ``AddressSpec.where``."""
        return self.address

    def tokens(self) -> tuple[str, ...]:
        """See ``BoardSpec.tokens``."""
        return read_tokens(self.id, self.token_file)

    def why_not(self) -> str | None:
        """See ``BoardSpec.why_not``."""
        return why_no_token(self.id, self.token_file)

    def connect(self) -> RpcBoard:
        """See ``AddressSpec.connect``."""
        host, port = split_address(self.address)
        tokens = self.tokens()
        return RpcBoard(self.id, host, port, tokens=tokens, target=self.target, threads=self.threads)
