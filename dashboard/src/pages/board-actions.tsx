/** What an operator does with a board, each behind a dialog that says what will happen. */
import { Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import type { Board } from "../api/client";
import { api, data } from "../api/client";
import { Failure } from "../parts/states";

export type Action = "drain" | "park" | "return" | "retire";

const NAMES: Record<Action, string> = {
  drain: "Drain",
  park: "Park",
  return: "Return to service",
  retire: "Retire",
};
const WORDS: Record<Action, string> = {
  drain: "It finishes what it measures and then gets nothing more.",
  park: "It is taken out of service at once. What runs there is thrown away and measured elsewhere.",
  return: "It is checked, and gets trials again when the check passes.",
  retire: "It is taken out of service for good: no job waits for it any more. Its history stays.",
};

/** What can be done with it now. */
export function actionsOf(board: Board): Action[] {
  if (board.health === "retired") return ["return"];
  const out = board.health === "bad" || board.health === "maintenance" || board.draining;
  return out ? ["return", "retire"] : ["drain", "park", "retire"];
}

export function Actions({ board, onAsk }: { board: Board; onAsk: (action: Action) => void }) {
  return (
    <Group gap="xs">
      {actionsOf(board).map((action) => (
        <Button
          key={action}
          size="compact-sm"
          variant={action === "return" ? "light" : "default"}
          onClick={() => onAsk(action)}
        >
          {NAMES[action]}
        </Button>
      ))}
    </Group>
  );
}

export function Ask({ board, action, onClose }: { board: Board; action: Action; onClose: () => void }) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const path = { params: { path: { board_id: board.id } }, body: { reason: reason || null } };
  const act = useMutation({
    mutationFn: () => {
      if (action === "park")
        return data(api.POST("/api/v1/boards/{board_id}/park", { ...path, body: { reason } }));
      if (action === "drain") return data(api.POST("/api/v1/boards/{board_id}/drain", path));
      if (action === "retire") return data(api.POST("/api/v1/boards/{board_id}/retire", path));
      return data(api.POST("/api/v1/boards/{board_id}/return", path));
    },
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["boards"] });
      onClose();
    },
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={`${action} ${board.id}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          act.mutate();
        }}
      >
        <Stack>
          <Text size="sm">{WORDS[action]}</Text>
          <TextInput
            label="Reason"
            description="It goes into the board's history."
            required={action === "park"}
            maxLength={500}
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
            data-autofocus
          />
          {act.error && <Failure error={act.error} />}
          <Button type="submit" loading={act.isPending} {...(action === "retire" && { color: "red" })}>
            {NAMES[action]}
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}
