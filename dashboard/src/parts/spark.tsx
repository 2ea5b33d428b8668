/** A few figures over time as a line in the text's colour; the first page has no room for a chart library. */
const WIDTH = 240;
const HEIGHT = 40;

export function Spark({ values, label }: { values: number[]; label: string }) {
  const most = Math.max(1, ...values);
  const points = values.map(
    (value, at) =>
      `${(at / Math.max(1, values.length - 1)) * WIDTH},${HEIGHT - 1 - (value / most) * (HEIGHT - 2)}`,
  );
  return (
    <svg role="img" aria-label={label} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT}>
      <polyline points={points.join(" ")} fill="none" stroke="currentColor" strokeWidth={1.5} />
    </svg>
  );
}
