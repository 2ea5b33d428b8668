/** Shapes of inputs as text. */
import { Textarea } from "@mantine/core";

import { shapesOf } from "../api/inputs";

export function ShapesField({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  const problem = value.trim() ? shapesOf(value) : null;
  return (
    <Textarea
      label="Shapes"
      description="One input a line, like x=1,3,224,224. A size may be a range, like 1..512, for a module that takes any."
      autosize
      minRows={2}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      error={typeof problem === "string" ? problem : null}
    />
  );
}
