// What a map of the linked pair can be saved as.

import { fileName, titleOf } from "./charts.js";
import { legendEntries } from "./fieldlayout.js";
import { rasterise, saveButtons, standalone } from "./save.js";

// The download buttons of a side; `fields` gives the run, the source, the theme and the metric of a side.
export function fileButtons(fields, side, i) {
  const variant = () => fields.run.look.variants[fields.variantIndex];
  const draw = () => {
    fields.drawSide(side, i, false);
    const { map, scale } = side;
    const title = titleOf(fields.run, scale.about.title, variant().label);
    return standalone(map.drawing(), title, legendEntries(map), fields.theme);
  };
  const name = () => fileName(fields.run, fields.metric(i), variant().slug);
  const csv = async () => {
    const asked = new URLSearchParams({ metric: fields.metric(i), variant: fields.variantIndex });
    const answer = await fetch(`/_ctxviz/values/${fields.source.id}/csv?${asked}`);
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.blob();
  };
  const what = `the ${side.name.toLowerCase()} map`;
  return saveButtons(what, name, { svg: draw, png: async () => rasterise(draw()), csv });
}
