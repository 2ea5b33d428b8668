/** Shapes of inputs as text: one set, and more of them for a model that takes any. */
import { Button, CloseButton, Group, Stack, Textarea } from "@mantine/core";

import { setOf } from "../api/inputs";

const FIRST =
  "One input a line, like x=1,3,224,224. A size may be a range, like 1..512, for a module that takes any.";

type Props = { texts: string[]; onChange: (texts: string[]) => void };

export function ShapesField({ texts, onChange }: Props) {
  return (
    <Stack gap="xs" align="start">
      {texts.map((text, at) => {
        const name = at === 0 ? "Shapes" : `Set ${at + 1}`;
        const found = setOf(text);
        return (
          <Group key={at} w="100%" gap="xs" align="start" wrap="nowrap">
            <Textarea
              flex={1}
              label={name}
              description={at === 0 && FIRST}
              autosize
              minRows={2}
              value={text}
              onChange={(event) => onChange(texts.with(at, event.currentTarget.value))}
              error={typeof found === "string" ? found : null}
            />
            {at > 0 && (
              <CloseButton
                aria-label={`Remove ${name.toLowerCase()}`}
                onClick={() => onChange(texts.toSpliced(at, 1))}
              />
            )}
          </Group>
        );
      })}
      <Button
        variant="default"
        size="compact-sm"
        title="One module then takes inputs of each set"
        // Most often one size differs.
        onClick={() => onChange([...texts, texts.at(-1)!])}
      >
        Add a set
      </Button>
    </Stack>
  );
}
