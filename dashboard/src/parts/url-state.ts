/** State that a link carries: whoever opens it sees the same view. */
import { useDebouncedCallback } from "@mantine/hooks";
import { useState } from "react";
import { useSearchParams } from "wouter";

type Changes = Record<string, string | null>;

/** What the address says, and how to change some of it; null takes a part out. */
export function useAddress(): [URLSearchParams, (changes: Changes) => void] {
  const [asked, ask] = useSearchParams();
  const change = (changes: Changes) =>
    ask(
      () => {
        // Not what was there at the last drawing: two changes may come between two of them.
        const next = new URLSearchParams(window.location.search);
        for (const [name, value] of Object.entries(changes)) {
          if (value === null || value === "") next.delete(name);
          else next.set(name, value);
        }
        return next;
      },
      { replace: true },
    );
  return [asked, change];
}

/** Words that are typed: shown at once, and in the address when the typing rests. */
export function useTyped(name: string): [string, (value: string) => void] {
  const [asked, change] = useAddress();
  const [typed, type] = useState(asked.get(name) ?? "");
  const later = useDebouncedCallback((value: string) => change({ [name]: value.trim() }), 300);
  return [
    typed,
    (value) => {
      type(value);
      later(value);
    },
  ];
}
