/** What pages call a job, how far it is, and what it gained. */
import type { Job } from "../api/client";
import { milliseconds } from "../format";

/** Its number with what somebody called it, else with the model's name, or what is tuned without one. */
export function nameOf(job: Job): string {
  return `${job.id} ${job.name || (job.model_name ?? "one workload")}`;
}

/** How much of its budget a job has used, from 0 to 1. */
export function shareDone(job: Job): number {
  const { trials, seconds } = job.budget;
  return Math.min(1, Math.max(trials ? job.trials / trials : 0, seconds ? job.elapsed_s / seconds : 0));
}

/** Where a job waits, and as which. */
export function waitsAs(job: Job, waiting: NonNullable<Job["waiting"]>): string {
  return job.state === "queued"
    ? `Position ${waiting.position} of the queue`
    : `Waits for a board, place ${waiting.position}`;
}

/** How many times as fast as the untuned model, as measured; a dash where that was not. */
export function gainOf({ verdict }: Job): string {
  if (!verdict) return "–";
  if (!verdict.difference) return "no difference";
  const spread = (verdict.high - verdict.low) / 2;
  return `${verdict.gain.toFixed(2)}\u00a0x${spread ? ` ±\u00a0${spread.toFixed(2)}` : ""}`;
}

/** What the untuned model took beside the delivered one; a dash where it was not measured. */
export function untunedOf({ verdict }: Job): string {
  return milliseconds(verdict?.untuned_ms ?? null);
}

/** How many times as fast as the runtime that the model was written for. */
export function besidePeer({ verdict }: Job): string {
  if (!verdict?.peer_ms) return "–";
  return `${(verdict.peer_ms / verdict.delivered_ms).toFixed(2)}\u00a0x`;
}
