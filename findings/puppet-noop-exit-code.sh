#!/usr/bin/env bash
# Puppet 7.23.0 (Debian 12, puppet-agent 7.23.0-1, Ruby 3.1.2): a dry run says "no changes" by its exit code, and isn't wholly dry.
#
# Expected: with --detailed-exitcodes, 2 says that there are changes. So `puppet apply --noop --detailed-exitcodes` ends with 2 if it would
#   change something, as the plans of other tools do, and it runs no command.
# Seen: it ends with 0 whatever it would change: only what was done counts. The commands of `onlyif` and `unless` run in a dry run, too, so
#   that one that isn't read-only has its effect.
# What to do: to look for drift, read the report or the lines with "(noop)", not the exit code; keep `onlyif` read-only.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q puppet-agent=7.23.0-1 facter=4.3.0-2 hiera=3.10.0-1 libruby3.1=3.1.2-7+deb12u1 ruby3.1=3.1.2-7+deb12u1 rubygems-integration \
    ruby-hocon ruby-thor ruby-deep-merge ruby-augeas ruby-concurrent ruby-semantic-puppet ruby-shadow ruby-rbtree ruby-sorted-set \
    augeas-lenses libaugeas0 >/dev/null 2>&1
for each in *.deb; do dpkg-deb -x "$each" root; done
machine=$(basename "$(dirname "$(find root/usr/lib -maxdepth 2 -name 'libruby-3.1.so.3.1')")")
lib="$folder/root/usr/lib"
export LD_LIBRARY_PATH="$lib/$machine" RUBYLIB="$lib/ruby/vendor_ruby:$lib/ruby/3.1.0:$lib/$machine/ruby/3.1.0:$lib/$machine/ruby/vendor_ruby/3.1.0"
export GEM_PATH="$folder/root/usr/share/rubygems-integration/all:$lib/$machine/rubygems-integration/3.1.0"
puppet() { "$folder/root/usr/bin/ruby3.1" "$folder/root/usr/bin/puppet" "$@" --confdir "$folder/conf" --vardir "$folder/var" --ssldir "$folder/ssl" --publicdir "$folder/public"; }
puppet --version
cat >site.pp <<END
file { '$folder/wanted': ensure => file, content => 'text' }
exec { '/usr/bin/touch $folder/done': onlyif => '/usr/bin/touch $folder/looked' }
END
code=0
check() { # name, expected, seen
    printf '%-36s %s\n' "$1" "$3"
    [ "$2" = "$3" ] || { echo "$1 has changed: expected $2"; code=1; }
}
run() { puppet apply --detailed-exitcodes "$@" site.pp >log 2>&1 && echo 0 || echo $?; }
there() { [ -e "$1" ] && echo yes || echo no; }
check 'exit code of a dry run' 0 "$(run --noop)"
check 'lines with (noop)' 2 "$(grep -c 'should be.*(noop)' log)"
check 'the file was made' no "$(there wanted)"
check 'the command ran' no "$(there done)"
check 'the command of onlyif ran' yes "$(there looked)"
check 'exit code of the run' 2 "$(run)"
exit "$code"
