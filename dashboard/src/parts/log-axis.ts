/** Round figures on a logarithmic axis: by itself it names powers of ten, and of a short range its two ends alone. */

/** From the coarsest to the finest: figures of each decade. */
const FIGURES = [
  [1],
  [1, 3],
  [1, 2, 5],
  [1, 1.5, 2, 3, 5, 7],
  Array.from({ length: 18 }, (_, at) => 1 + at / 2),
];
const ENOUGH = 4;

/** The round figures between two, about as many as an axis has room for. */
export function figuresBetween(low: number, high: number): number[] {
  const decades = Array.from(
    { length: Math.ceil(Math.log10(high)) - Math.floor(Math.log10(low)) + 1 },
    (_, at) => Math.floor(Math.log10(low)) + at,
  );
  const found = FIGURES.map((figures) =>
    // By the text of it: of 3 times a power of ten, a product has a last digit of its own.
    decades.flatMap((decade) => figures.map((figure) => Number(`${figure}e${decade}`))),
  ).map((all) => all.filter((each) => each >= low && each <= high));
  return found.find((all) => all.length >= ENOUGH) ?? found.at(-1)!;
}

/** What an axis from `low` to `high` needs, so that there are figures and lines between its ends. */
export function steps(low: number, high: number, formatter: (value: number) => string) {
  const customValues = figuresBetween(low, high);
  return {
    axisLabel: { customValues, formatter, hideOverlap: true },
    axisTick: { customValues },
    splitLine: { customValues },
  };
}
