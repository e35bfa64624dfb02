#!/bin/sh
# What cargo starts instead of rustc for the crates of this workspace (.cargo/config.toml): release builds are optimized by how often
# which code ran when kernels were compiled (release.profdata; CONTRIBUTING.md says how it is made). A profile of other code, another
# compiler or another machine is not wrong, it says nothing about what it does not know.
rustc=$1
shift
optimized= other= name= before=
for argument; do
    case $argument in
    opt-level=3) optimized=yes ;;
    # The simulator does something else than compilers do, and its loops would count for more than anything of theirs.
    sim | testkit | xtask) other=yes ;;
    # Who counts or checks himself, fuzzers for one, wants code as it is.
    *profile-generate* | *profile-use* | *instrument-coverage* | *sanitizer* | *sancov*) other=yes ;;
    esac
    [ "$before" != --crate-name ] || name=$argument
    before=$argument
done
# The profile knows functions by their names, and in these is what cargo tells a crate from others by: a hash in which is where this
# script lies. Elsewhere nothing would be known. Here a crate's name does, as in each program there is one of it.
if [ "$optimized" ]; then
    for argument; do
        shift
        case $argument in
        metadata=*) set -- "$@" "metadata=$name" ;;
        *) set -- "$@" "$argument" ;;
        esac
    done
fi
# Calls of what is known by its address alone stay so: else each program has all tools in it, as all of them counted. Conditions that
# nearly always hold are not tested once for several places, in copies of these: more code for no time that could be measured. What the
# profile says never ran stands apart from what did: a program that starts finds less of its code in no cache.
if [ "$optimized" ] && [ ! "$other" ]; then
    exec "$rustc" "$@" "-Cprofile-use=${0%/*}/release.profdata" "-Cllvm-args=-no-pgo-warn-mismatch -disable-icp -disable-chr -enable-split-machine-functions -mfs-psi-cutoff=0"
fi
exec "$rustc" "$@"
