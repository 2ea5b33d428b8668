/** States in colours that mean the same everywhere; the word always stands beside the colour. */
import { Badge } from "@mantine/core";

const COLOURS: Record<string, string> = {
  running: "cyan",
  measuring: "cyan",
  leased: "cyan",
  active: "cyan",
  done: "green",
  good: "green",
  idle: "gray",
  queued: "gray",
  waiting: "gray",
  untried: "gray",
  stopped: "yellow",
  offline: "gray",
  plateau: "green",
  exhausted: "green",
  draining: "yellow",
  cancelling: "yellow",
  cancelled: "yellow",
  unknown: "yellow",
  maintenance: "yellow",
  incomplete: "orange",
  interrupted: "orange",
  failed: "red",
  bad: "red",
  retired: "gray",
};

export function StateBadge({ state }: { state: string }) {
  return (
    <Badge color={`${COLOURS[state] ?? "gray"}.6`} variant="dot" miw="max-content">
      {state}
    </Badge>
  );
}
