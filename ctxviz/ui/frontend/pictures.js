// Pictures pasted anywhere in the page, handed to the script as base64.

import { mounting } from "./mounting.js";

export default mounting(() => new Paste());

class Paste {
  constructor() {
    this.listen = (event) => take(event, this);
    document.addEventListener("paste", this.listen);
  }

  update({ data, setTriggerValue }) {
    this.limits = data;
    this.send = (files) => setTriggerValue("pasted", files);
  }

  end() {
    document.removeEventListener("paste", this.listen);
  }
}

async function take(event, paste) {
  const files = [...(event.clipboardData?.files ?? [])];
  // Office programs put a picture of a text beside the text; in a field the text is meant.
  const typing = event.target.closest?.("input, textarea") && event.clipboardData.types.includes("text/plain");
  if (!files.length || typing) return;
  event.preventDefault();
  const { chosen, leftOut } = choose(files, paste.limits);
  const packed = await Promise.all(chosen.map((file) => pack(file, paste.limits.each)));
  if (leftOut) packed.push({ left_out: leftOut });
  paste.send(packed);
}

// Pictures only, so many and of so many bytes together; one too large by itself is told of, not sent.
function choose(files, { each, together, most }) {
  const chosen = [];
  let bytes = 0;
  for (const file of files) {
    const sent = file.size > each ? 0 : file.size;
    if (!file.type.startsWith("image/") || chosen.length === most || bytes + sent > together) continue;
    chosen.push(file);
    bytes += sent;
  }
  return { chosen, leftOut: files.length - chosen.length };
}

async function pack(file, limit) {
  if (file.size > limit) return { name: file.name, size: file.size };
  const address = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return { name: file.name, data: address.slice(address.indexOf(",") + 1) };
}
