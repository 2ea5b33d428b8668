/** How a model's inputs shall be read: shapes that it leaves open, and values that become constants. */
import { Button, Group, Stack } from "@mantine/core";
import { useState } from "react";

import type { Shapes, Values } from "../api/inputs";
import { shapesOf, valuesOf } from "../api/inputs";
import { Notice } from "../parts/notice";
import { ShapesField } from "./submit-shapes";
import { ValuesField } from "./submit-values";

export function Inputs({
  busy,
  refused,
  open,
  dynamic,
  texts,
  setTexts,
  onRead,
}: {
  busy: boolean;
  /** Why it was not read, or nothing. */
  refused: string | undefined;
  /** Whether that is because it leaves shapes open. */
  open: boolean;
  /** Whether shapes are asked for. */
  dynamic: boolean;
  texts: string[];
  setTexts: (texts: string[]) => void;
  /** Shapes are null where they are not asked for. */
  onRead: (shapes: Shapes | null, values: Values | null) => void;
}) {
  const [constants, setConstants] = useState("");
  const shapes = dynamic ? shapesOf(texts) : null;
  const values = valuesOf(constants);
  const read = (
    <Group>
      <Button
        type="submit"
        variant={dynamic ? "filled" : "light"}
        disabled={busy || typeof shapes === "string" || typeof values === "string"}
      >
        {dynamic ? "Read it with these shapes" : "Read it with these values"}
      </Button>
    </Group>
  );
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (typeof shapes !== "string" && typeof values !== "string") onRead(shapes, values);
      }}
    >
      <Stack gap="sm">
        {open && (
          <Notice kind="warning" title="The model leaves shapes open">
            {refused?.split(": give ")[0]}. Say for which it shall be tuned.
          </Notice>
        )}
        {dynamic && <ShapesField texts={texts} onChange={setTexts} />}
        {/* Some models are refused until an input that decides something has a value. */}
        <details open={refused !== undefined && /value/.test(refused)}>
          <summary>Inputs that always have the same value</summary>
          <Stack gap="sm" mt="xs">
            <ValuesField value={constants} onChange={setConstants} />
            {!dynamic && read}
          </Stack>
        </details>
        {dynamic && read}
      </Stack>
    </form>
  );
}
