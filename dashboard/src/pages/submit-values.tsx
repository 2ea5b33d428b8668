/** Values of inputs as text. */
import { Textarea } from "@mantine/core";

import { valuesOf } from "../api/inputs";

export function ValuesField({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  const found = valuesOf(value);
  return (
    <Textarea
      label="Values"
      description="One input a line, like sr=16000. It becomes a constant of the model: what it decides is decided then."
      autosize
      minRows={2}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      error={typeof found === "string" ? found : null}
    />
  );
}
