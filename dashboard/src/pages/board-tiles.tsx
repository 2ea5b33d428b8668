/** The fleet in five figures, each of which shows the boards that it counts. */
import { SimpleGrid, Text, UnstyledButton } from "@mantine/core";

import type { Board } from "../api/client";
import { percent } from "../format";
import { STATES, isIn } from "./board-state";
import classes from "./boards.module.css";

export function FleetTiles({ boards, onPick }: { boards: Board[]; onPick: (state: string) => void }) {
  const there = boards.filter((board) => board.health !== "retired");
  const inState = (state: (typeof STATES)[number]) => boards.filter((board) => isIn(board, state));
  const good = inState("in service");
  const measuring = inState("measuring");
  const trouble = inState("needs somebody");
  const out = inState("out of service");
  const use = good.reduce((sum, board) => sum + (board.utilisation ?? 0), 0) / Math.max(1, good.length);
  const tiles = [
    {
      state: "in service",
      value: `${good.length} of ${there.length}`,
      note: `${percent(use)} inside the timer`,
    },
    { state: "measuring", value: `${measuring.length}`, note: "now" },
    { state: "needs somebody", value: `${trouble.length}`, note: "bad or offline" },
    { state: "out of service", value: `${out.length}`, note: "by an operator" },
  ];
  return (
    <SimpleGrid cols={{ base: 2, sm: 4 }}>
      {tiles.map(({ state, value, note }) => (
        <UnstyledButton
          key={state}
          className={classes.tile}
          data-alarm={(state === "needs somebody" && trouble.length > 0) || undefined}
          onClick={() => onPick(state)}
          title={`Show only these`}
        >
          <Text size="sm" c="dimmed" component="span" display="block">
            {state}
          </Text>
          <Text size="lg" fw={600} component="span" display="block">
            {value}
          </Text>
          <Text size="xs" c="dimmed" component="span" display="block">
            {note}
          </Text>
        </UnstyledButton>
      ))}
    </SimpleGrid>
  );
}
