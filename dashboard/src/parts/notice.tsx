/** A message that looks like what it means, and says so to those who do not see it. */
import { Box, Text } from "@mantine/core";
import type { ReactNode } from "react";

const SIGNS = { error: "✕", warning: "!", info: "…" };

export function Notice({
  kind,
  title,
  children,
}: {
  kind: keyof typeof SIGNS;
  title?: string;
  children: ReactNode;
}) {
  return (
    <Box className={`notice-${kind}`} role={kind === "error" ? "alert" : "status"} p="xs" my="xs">
      {title && (
        <Text fw={600} size="sm">
          <span aria-hidden="true">{SIGNS[kind]}</span> {title}
        </Text>
      )}
      <Text size="sm" component="div">
        {children}
      </Text>
    </Box>
  );
}
