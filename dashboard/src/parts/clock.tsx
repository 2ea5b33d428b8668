/** Times by a simulated clock say so wherever they stand. */
import { Badge } from "@mantine/core";

import { isSimulated } from "../format";

export function ClockMark({ clock }: { clock: string }) {
  if (!isSimulated(clock)) return null;
  return (
    <Badge
      color="orange"
      variant="dot"
      miw="max-content"
      title={`By the clock ${clock}: computed, not measured.`}
    >
      simulated
    </Badge>
  );
}
