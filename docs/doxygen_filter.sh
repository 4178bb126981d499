#!/bin/sh
# Makes doxygen's comments of the plain ones of a header: `//` becomes `///`, the head of koshi.h the first page, code between
# back quotes typewriter, and what doxygen would take for commands or HTML stays text.
exec awk '
function text(line) {
    gsub(/\\/, "\\\\\\\\", line); gsub(/@/, "\\@", line); gsub(/#/, "\\#", line); gsub(/%/, "\\%", line)
    gsub(/&/, "\\&", line); gsub(/</, "\\<", line); gsub(/>/, "\\>", line)
    while (match(line, /`[^`]*`/))
        line = substr(line, 1, RSTART - 1) "<tt>" substr(line, RSTART + 1, RLENGTH - 2) "</tt>" substr(line, RSTART + RLENGTH)
    return line
}
NR == 1 && /^\/\*/ { print "/** \\mainpage"; head = 1; next }
NR == 1 && /^\/\// { file = 1; print "/// \\file" }
head && /\*\// { head = 0; print; print "/// \\file\n/// The C interface; what holds for all of it stands on the first page."; next }
head { print text($0); next }
# Lines that are set in by a tab stop are code.
match($0, /^ *\/\//) {
    line = text(substr($0, RSTART + RLENGTH))
    print substr($0, 1, RLENGTH - 2) (line ~ /^     / ? "///  <tt>" line "</tt><br>" : "///" line)
    next
}
{ print }
' "$1"
