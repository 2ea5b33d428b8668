/** State that a link carries: whoever opens it sees the same view. */
import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useState } from "react";
import { useSearchParams } from "wouter";

type Changes = Record<string, string | null>;
type Change = (changes: Changes) => void;

/** What the address says, and how to change some of it; null takes a part out. With `push` the browser's back
 * leads to what was before. */
export function useAddress(how: "push" | "replace" = "replace"): [URLSearchParams, Change] {
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
      { replace: how === "replace" },
    );
  return [asked, change];
}

/** Words that are typed: shown at once, and in the address when the typing rests. What changes the address
 * otherwise, the browser's back among others, changes them as well. */
export function useTyped(name: string, change?: Change): [string, (value: string) => void] {
  const [asked, replace] = useAddress();
  const there = asked.get(name) ?? "";
  const [typed, type] = useState(there);
  const later = useDebouncedCallback((value: string) => {
    if (value.trim() !== there) (change ?? replace)({ [name]: value.trim() });
  }, 300);
  useEffect(() => {
    if (typed.trim() === there) return;
    later.cancel();
    type(there);
    // Only what the address says anew counts: typing is ahead of it.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [there]);
  return [
    typed,
    (value) => {
      type(value);
      later(value);
    },
  ];
}
