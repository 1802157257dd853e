#!/usr/bin/env bash
# Makes a Debian package: build.sh VERSION ARCH BINARY SHELL DIR. SHELL is the folder with man1 and completions. The same files make the
# same bytes. The package has a service that runs as a user of its own, a configuration file, manual pages and completions.
set -euo pipefail
[ $# -eq 5 ] || { echo "usage: build.sh VERSION ARCH BINARY SHELL DIR" >&2; exit 2; }
version=${1#v} arch=$2 binary=$3 shell=$4 dir=$5
here=$(cd "$(dirname "$0")" && pwd)
case $version in [0-9]*) ;; *) version=0~$version ;; esac # dpkg wants a digit first; this one is older than all releases
version=${version//-/\~}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
umask 022

install -D -m 0755 "$binary" "$root/usr/bin/quern"
install -D -m 0644 "$here/../systemd/quern.service" "$root/lib/systemd/system/quern.service"
install -D -m 0644 "$here/configuration.conf" "$root/lib/systemd/system/quern.service.d/configuration.conf"
install -D -m 0644 "$shell/quern.yaml" "$root/etc/quern/quern.yaml"
install -D -m 0644 "$here/copyright" "$root/usr/share/doc/quern/copyright"
install -D -m 0644 "$shell/completions/quern.bash" "$root/usr/share/bash-completion/completions/quern"
install -D -m 0644 "$shell/completions/quern.zsh" "$root/usr/share/zsh/vendor-completions/_quern"
install -D -m 0644 "$shell/completions/quern.fish" "$root/usr/share/fish/vendor_completions.d/quern.fish"
mkdir -p "$root/usr/share/man/man1" "$root/DEBIAN"
for page in "$shell"/man1/*.1; do gzip -9n <"$page" >"$root/usr/share/man/man1/$(basename "$page").gz"; done

for script in postinst prerm postrm; do install -m 0755 "$here/$script" "$root/DEBIAN/$script"; done
echo /etc/quern/quern.yaml >"$root/DEBIAN/conffiles"
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
size=$(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)
sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$size/" "$here/control" >"$root/DEBIAN/control"
find "$root" -exec touch --no-dereference --date=@0 {} +
mkdir -p "$dir"
SOURCE_DATE_EPOCH=0 dpkg-deb --root-owner-group -Zxz --build "$root" "$dir/quern_${version}_$arch.deb" >/dev/null
echo "$dir/quern_${version}_$arch.deb"
