/** Server-Sent Events as React state. The browser reconnects by itself and sends Last-Event-ID. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import type { Job } from "./client";

export type Link = "connecting" | "live" | "lost" | "over";

/** Called with the name and the data of each event. */
type OnEvent = (name: string, data: Record<string, unknown>) => void;

const JOB_EVENTS = ["state", "trial", "best", "progress", "end"];

/** Follow `url` while mounted; `null` follows nothing. */
export function useEvents(url: string | null, names: readonly string[], onEvent: OnEvent): Link {
  const [link, setLink] = useState<Link>("connecting");
  useEffect(() => {
    if (url === null) return;
    const source = new EventSource(url);
    source.onopen = () => setLink("live");
    source.onerror = () => setLink(source.readyState === EventSource.CLOSED ? "over" : "lost");
    for (const name of names) {
      source.addEventListener(name, (event) => {
        onEvent(name, JSON.parse((event as MessageEvent<string>).data));
        if (name !== "end") return;
        setLink("over");
        source.close();
      });
    }
    return () => source.close();
    // The handler is made anew with every rendering; the stream must not be.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [url]);
  return link;
}

/** Keep a job fresh while it runs: asked again at once at a new best, every two seconds at trials. Its figures
 * come with the stream itself. */
export function useJobEvents(job: Job | undefined): Link {
  const client = useQueryClient();
  const running = job !== undefined && !isOver(job);
  const [pending] = useState({ timer: 0, due: Infinity });
  const key = ["job", job?.id];
  const refresh = (delay: number) => {
    const due = Date.now() + delay;
    if (pending.due <= due) return;
    window.clearTimeout(pending.timer);
    pending.due = due;
    pending.timer = window.setTimeout(() => {
      pending.due = Infinity;
      void client.invalidateQueries({ queryKey: key });
    }, delay);
  };
  return useEvents(running ? `/api/v1/jobs/${job.id}/events` : null, JOB_EVENTS, (name, data) => {
    if (name === "progress") {
      // The estimate comes with the curve: of a stream it would run ahead of it.
      const { shares: _, estimated_ms: __, ...figures } = data;
      client.setQueryData<Job>(key, (known) => known && { ...known, ...figures });
    } else refresh(name === "trial" ? 2000 : 50);
  });
}

/** Keep the list of boards fresh: asked for again when one says that it changed. */
export function useBoardEvents() {
  const client = useQueryClient();
  useEvents(
    "/api/v1/boards/events",
    ["board"],
    () => void client.invalidateQueries({ queryKey: ["boards"], exact: true }),
  );
}

/** Whether nothing will happen to the job unless somebody resumes it. */
export function isOver(job: Job): boolean {
  return OVER.includes(job.state);
}

export const ALIVE: Job["state"][] = ["queued", "running", "cancelling"];
export const OVER: Job["state"][] = ["done", "incomplete", "cancelled", "failed", "interrupted"];
