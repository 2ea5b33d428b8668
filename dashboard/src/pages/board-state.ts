/** What a board is doing or what it lacks, in one word: what matters most of its health and activity. */
import type { Board } from "../api/client";

export function stateOf(board: Board): string {
  if (board.health === "retired") return "retired";
  if (board.health === "bad") return "bad";
  if (board.activity === "offline") return "offline";
  if (board.health === "maintenance") return "maintenance";
  if (board.draining) return "draining";
  if (board.health === "unknown") return "unknown";
  return board.activity;
}

/** From what needs somebody to what needs nobody. */
const URGENCY = [
  "bad",
  "offline",
  "unknown",
  "maintenance",
  "draining",
  "measuring",
  "leased",
  "idle",
  "retired",
];

export const urgencyOf = (board: Board) => URGENCY.indexOf(stateOf(board));

export const needsSomebody = (board: Board) => ["bad", "offline"].includes(stateOf(board));

/** What people ask for; a retired board is in none of the others. */
export const STATES = [
  "in service",
  "measuring",
  "needs somebody",
  "offline",
  "out of service",
  "retired",
] as const;

/** Whether a board is in one of these states; in any, when none is asked for. */
export function isIn(board: Board, state: string | null): boolean {
  const retired = board.health === "retired";
  if (state === "retired") return retired;
  const away = board.activity === "offline";
  switch (state) {
    case "in service":
      return board.health === "good" && !board.draining && !away;
    case "measuring":
      return !retired && board.activity === "measuring";
    case "needs somebody":
      return needsSomebody(board);
    case "offline":
      return !retired && away;
    case "out of service":
      return !retired && (board.health === "maintenance" || board.draining);
    default:
      return true;
  }
}

/** Why it is not in service, where that says more than its state. */
export const reasonOf = (board: Board) =>
  board.reason === "new" && !board.last_seen ? "it was never seen" : board.reason;
