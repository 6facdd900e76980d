# Curves as an SVG: lines "SERIES<TAB>x<TAB>y" in order of x. Variables: title, x_title, y_title, y_from, mark (a
# dashed line at that y).
function nice(range,   power, part) {
  power = 10 ^ int(log(range) / log(10) - (range < 1 ? 1 : 0))
  part = range / power
  return power * (part <= 2 ? 0.5 : part <= 5 ? 1 : 2)
}
function x_at(x) { return left + (right - left) * x / x_max }
function y_at(y) { return bottom - (bottom - top) * (y - y_from) / (y_max - y_from) }
BEGIN {
  FS = "\t"
  left = 70; right = 690; top = 50; bottom = 350
  split("#c2452d #1f6fb4 #3c8d40 #7a5195", colour, " ")
  y_max = 0; x_max = 0
}
{
  if (!($1 in number)) { number[$1] = ++series; name[series] = $1 }
  k = number[$1]
  ++points[k]
  xs[k, points[k]] = $2
  ys[k, points[k]] = $3
  if ($2 + 0 > x_max) x_max = $2 + 0
  if ($3 + 0 > y_max) y_max = $3 + 0
}
END {
  if (x_max <= 0) x_max = 1
  y_step = nice(y_max - y_from)
  y_max = y_step * int(y_max / y_step + 1)
  print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 410\" font-family=\"sans-serif\" font-size=\"13\">"
  print "<rect width=\"720\" height=\"410\" fill=\"white\"/>"
  printf "<text x=\"%d\" y=\"24\" font-size=\"16\">%s</text>\n", left, title
  x_step = nice(x_max)
  for (x = 0; x <= x_max * 1.0001; x += x_step)
    printf "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#e4e4e4\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
      x_at(x), top, x_at(x), bottom, x_at(x), bottom + 18, x
  for (y = y_from; y <= y_max * 1.0001; y += y_step)
    printf "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e4e4e4\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
      left, y_at(y), right, y_at(y), left - 6, y_at(y) + 4, y
  if (mark != "")
    printf "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#777\" stroke-dasharray=\"5 4\"/>\n", left, y_at(mark), right, y_at(mark)
  printf "<text x=\"%d\" y=\"398\" text-anchor=\"middle\">%s</text>\n", (left + right) / 2, x_title
  printf "<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n", (top + bottom) / 2, y_title
  for (k = 1; k <= series; ++k) {
    printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour[k]
    for (i = 1; i <= points[k]; ++i) printf "%.1f,%.1f ", x_at(xs[k, i]), y_at(ys[k, i])
    print "\"/>"
    for (i = 1; i <= points[k]; ++i) printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x_at(xs[k, i]), y_at(ys[k, i]), colour[k]
    printf "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"%s\">%s</text>\n", right, bottom - 12 - 18 * (series - k), colour[k], name[k]
  }
  print "</svg>"
}
