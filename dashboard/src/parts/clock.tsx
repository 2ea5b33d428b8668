/** Times by a simulated clock, and those that were disturbed, say so wherever they stand. */
import { Badge } from "@mantine/core";

import { isSimulated, seconds } from "../format";

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

export function Seconds({ value, disturbed }: { value: number | null; disturbed: boolean }) {
  if (!disturbed) return seconds(value);
  return (
    <>
      {seconds(value)}{" "}
      <Badge
        color="orange"
        variant="dot"
        miw="max-content"
        title="Others had the machine as well: it may be faster, and ranks behind what was measured quietly."
      >
        disturbed
      </Badge>
    </>
  );
}
