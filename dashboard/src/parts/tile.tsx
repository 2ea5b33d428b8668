/** A figure under its name. */
import { Card, Text } from "@mantine/core";
import type { ReactNode } from "react";

export function Tile({ name, value, note }: { name: string; value: ReactNode; note?: string }) {
  return (
    <Card withBorder padding="xs">
      <Text size="sm" c="dimmed">
        {name}
      </Text>
      <Text size="lg" fw={600} component="div">
        {value}
      </Text>
      {note && (
        <Text size="xs" c="dimmed">
          {note}
        </Text>
      )}
    </Card>
  );
}
