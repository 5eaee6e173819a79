# Frames what the scripts answer, so that Launchbay can tell it from what else writes to this output: start-up files of
# the login's shell, banners, background jobs. A frame is a line with the mark, words and a number of bytes, then those.
# The mark comes in two parts: a program that repeats this text doesn't repeat the mark.
unset -f cat chmod date env head id kill mkdir mv printf rm sleep tail wc 2>/dev/null
mark=$mark_begin$mark_end
say() { printf '\n%s %s 0\n' "$mark" "$*"; }
say begin
say begin >&2
