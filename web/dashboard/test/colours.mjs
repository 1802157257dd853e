// How different two colours look, also to those who see fewer.

/** Full deuteranopia, protanopia and tritanopia as matrices over linear RGB: G. M. Machado, M. M. Oliveira, L. A. F. Fernandes, 2009, severity 1. */
export const eyes = {
  all: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  deuteranope: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  protanope: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  tritanope: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
}

export const linear = (hex) => [1, 3, 5].map((i) => {
  const c = parseInt(hex.slice(i, i + 2), 16) / 255
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4
})
const times = (m, [r, g, b]) => [0, 3, 6].map((i) => Math.min(1, Math.max(0, m[i] * r + m[i + 1] * g + m[i + 2] * b)))

/** OKLab, whose distances are about what people see: B. Ottosson, 2020. */
function lab([r, g, b]) {
  const [l, m, s] = [0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b, 0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b, 0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b].map(Math.cbrt)
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s]
}

/** The distance of two colours for such eyes: 0 is the same, 2 can just be told apart, 100 is black and white. */
export function distance(a, b, eye = eyes.all) {
  const [x, y] = [a, b].map((hex) => lab(times(eye, linear(hex))))
  return 100 * Math.hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2])
}

/** The contrast of two colours by WCAG. */
export function contrast(a, b) {
  const [x, y] = [a, b].map((hex) => { const [r, g, bl] = linear(hex); return 0.2126 * r + 0.7152 * g + 0.0722 * bl }).sort((p, q) => q - p)
  return (x + 0.05) / (y + 0.05)
}

/** The tokens of each theme. */
export function themes(css) {
  const [light, dark] = css.split(':root[data-theme="dark"]').map((part) => Object.fromEntries([...part.matchAll(/--([\w-]+): (#[0-9a-f]{6})/g)].map((m) => [m[1], m[2]])))
  return { light, dark: { ...light, ...dark } }
}
