#!/bin/sh
# `make download` and its like, for images that have no bay, or not even make.
#
#   toolbox.sh make [-s] TARGET… NAME=VALUE…      what pod.sh lends as `make`
#   toolbox.sh bay toolbox VERB NAME=VALUE…       and as `bay`
#
# Of the first tool's verbs those that move data; it is done by what is here: s5cmd, python3 or aws.
# From the environment: S3_BUCKET_NAME, a bucket or `s3://bucket/folder`; S3_ENDPOINT_URL; the keys as AWS names them.
# Exits with 2 where it was asked wrongly, with 1 where it failed.
# POSIX sh; must work in dash and in busybox sh.
# shellcheck disable=SC2015,SC2016,SC2317
bay_node=${0%/*}

refuse() {
    printf 'launchbay: %s\n' "$1" >&2
    exit 2
}

fail() {
    printf 'launchbay: %s\n' "$1" >&2
    exit 1
}

# The verb that a word means, if it is one of those that move data.
find_verb() {
    case $1 in
    download | down) bay_verb=download ;;
    upload | up) bay_verb=upload ;;
    list | ls) bay_verb=list ;;
    find | fd) bay_verb='find' ;;
    remove | rm) bay_verb=remove ;;
    *) return 1 ;;
    esac
}

# A variable as make takes it; one without a value says nothing.
take_variable() {
    bay_value=${1#*=}
    [ -n "$bay_value" ] || return 0
    case $1 in
    file=*) bay_file=$bay_value ;;
    local_path=*) bay_local=$bay_value ;;
    overwrite=*) is_true "$1" && bay_overwrite=1 ;;
    yes=*) is_true "$1" && bay_yes=1 ;;
    api=*) ;;
    *) refuse "there is no variable \`${1%%=*}\` for data; there are file=, local_path=, overwrite= and yes=" ;;
    esac
    return 0
}

is_true() {
    case ${1#*=} in
    true | True | TRUE | 1 | yes | y | on) return 0 ;;
    false | False | FALSE | 0 | no | n | off) return 1 ;;
    esac
    refuse "\`$1\` is neither yes nor no; write \`${1%%=*}=true\`"
}

read_make() {
    for bay_word in "$@"; do
        case $bay_word in
        *=*) take_variable "$bay_word" ;;
        -s | --silent | --quiet | --no-print-directory | -j | -j[0-9]*) ;;
        -*) refuse "this image has no make, and \`$bay_word\` is nothing for the part that is lent" ;;
        *)
            find_verb "$bay_word" || refuse_target "$bay_word"
            bay_verbs="$bay_verbs $bay_verb"
            ;;
        esac
    done
    [ -n "$bay_verbs" ] || refuse 'this image has no make; what is lent knows `make download`, upload, list, find and remove'
}

refuse_target() {
    case $1 in
    local | local-first | local-dryrun) refuse "\`make $1\` in a pod needs bay and make in the image: install make, and pip install launchbay" ;;
    esac
    refuse "this image has no make; \`make $1\` needs one, only download, upload, list, find and remove work without"
}

read_bay() {
    [ "${1-}" = toolbox ] && [ "$#" -gt 1 ] ||
        refuse 'this image has no bay, and only `bay toolbox download`, upload, list, find and remove work without: pip install launchbay'
    find_verb "$2" || refuse "\`make $2\` in a pod needs bay in the image: pip install launchbay"
    bay_verbs=$bay_verb
    shift 2
    for bay_word in "$@"; do
        case $bay_word in
        *=*) take_variable "$bay_word" ;;
        -y | --yes) bay_yes=1 ;;
        *) refuse "\`$bay_verb\` takes no \`$bay_word\`; write \`file=$bay_word\`" ;;
        esac
    done
}

check() {
    [ -n "$bay_file" ] || [ "$bay_verb" = list ] || refuse "\`make $bay_verb\` needs \`file=…\`, such as \`file=data/\`"
    case $bay_file in /* | .. | ../* | */.. | */../*) refuse "\`file=$bay_file\` leads out of the folder; write a path below it, and \`local_path=\` for another folder" ;; esac
    [ "$bay_verb$bay_yes" != remove ] || refuse 'nobody can be asked here: `make remove` in a pod needs `yes=true`'
    [ -n "${S3_BUCKET_NAME-}" ] || refuse 'S3_BUCKET_NAME is not set: write it and the keys into .env, which travels with every run'
}

# A stub may be there that only complains.
has_s5cmd() {
    command -v s5cmd >/dev/null 2>&1 && s5cmd version >/dev/null 2>&1
}

has_python() {
    command -v python3 >/dev/null 2>&1 && python3 -I -S -c 'import sys; sys.exit(sys.version_info < (3, 6))' >/dev/null 2>&1
}

has_aws() {
    command -v aws >/dev/null 2>&1 && aws --version >/dev/null 2>&1
}

# Whoever has no keys may still read what everybody may.
has_keys() {
    [ -n "${AWS_ACCESS_KEY_ID-}${AWS_PROFILE-}${AWS_ROLE_ARN-}${AWS_CONTAINER_CREDENTIALS_FULL_URI-}" ] ||
        [ -e ~/.aws/credentials ] || [ -e ~/.aws/config ]
}

# What every key in the bucket begins with, and what every file here begins with.
find_places() {
    bay_root=s3://${S3_BUCKET_NAME#s3://}
    bay_root=${bay_root%/}/
    bay_here=${bay_local:-.}
    bay_here=${bay_here%/}/
    export AWS_REGION="${AWS_REGION:-${AWS_DEFAULT_REGION:-us-east-1}}"
    bay_unsigned=''
    has_keys || bay_unsigned=1
}

# Patterns of the shell, in which `*` crosses folders too; bay_start is what every match begins with.
read_pattern() {
    bay_text=$bay_file
    while :; do
        case $bay_text in ./*) bay_text=${bay_text#./} ;; *) break ;; esac
    done
    [ "$bay_text" != . ] || bay_text=''
    bay_start=${bay_text%%[*?[\\]*}
    # One character is never the end of a folder; twice, since what is replaced may stand side by side.
    case $bay_text in
    *'?'*) bay_text=$(printf '%s\n' "$bay_text" | sed 's/^?/[!\/]/; s/\([^\\]\)?/\1[!\/]/g; s/\([^\\]\)?/\1[!\/]/g') ;;
    esac
    bay_below=''
    case $bay_text in
    '') bay_glob='*' ;;
    */) bay_glob="$bay_text?*" ;;
    *'*') bay_glob=$bay_text ;;
    *) bay_glob=$bay_text bay_below="$bay_text/?*" ;;
    esac
}

# shellcheck disable=SC2254
is_meant() {
    case $1 in
    */.bay-*.part* | .bay-*.part*) return 1 ;;
    $bay_glob) return 0 ;;
    esac
    [ -n "$bay_below" ] || return
    case $1 in $bay_below) return 0 ;; esac
    return 1
}

# Of lines with names those that are meant, without $1 that each begins with.
choose() {
    while IFS= read -r bay_name; do
        bay_key=${bay_name#"$1"}
        case $bay_key in '' | */) continue ;; esac
        ! is_meant "$bay_key" || printf '%s\n' "$bay_key"
    done
}

# A name from elsewhere that would be written somewhere else than it says.
is_safe() {
    case /$1/ in */../* | */./* | *//*)
        printf 'launchbay: `%s` is left out: it leads out of the folder\n' "$1" >&2
        bay_code=1
        return 1
        ;;
    esac
}

quote() {
    bay_rest=$1 bay_quoted=''
    while :; do
        case $bay_rest in *\'*) ;; *) break ;; esac
        bay_quoted="$bay_quoted${bay_rest%%\'*}'\\''"
        bay_rest=${bay_rest#*\'}
    done
    bay_quoted="'$bay_quoted$bay_rest'"
}

call_s5cmd() {
    s5cmd ${bay_unsigned:+--no-sign-request} "$@"
}

call_aws() {
    aws ${S3_ENDPOINT_URL:+"--endpoint-url=$S3_ENDPOINT_URL"} ${bay_unsigned:+--no-sign-request} s3 "$@"
}

# The objects whose names begin as the meant ones do, as the tool lists them.
list_objects() {
    case $bay_tool in
    s5cmd) call_s5cmd ls --show-fullpath "$bay_root$bay_start*" 2>&1 ;;
    aws) call_aws ls --recursive "$bay_root$bay_start" 2>&1 ;;
    esac
}

# bay_keys is what is meant and in the bucket.
find_keys() {
    bay_said=$(list_objects) || {
        # aws says nothing, s5cmd that nothing was found.
        case $bay_said in '' | *'no object found'*) bay_said='' ;; *) fail "$bay_said" ;; esac
    }
    if [ "$bay_tool" = aws ]; then
        # A date, a time, a size, then the whole key.
        bay_inside=${bay_root#s3://*/}
        bay_keys=$(printf '%s\n' "$bay_said" | sed 's/^[^ ]* [^ ]*  *[0-9]* //' | choose "$bay_inside")
    else
        bay_keys=$(printf '%s\n' "$bay_said" | choose "$bay_root")
    fi
}

# bay_keys is what is meant and here.
find_files() {
    bay_top=${bay_start%/*}
    case $bay_start in */*) ;; *) bay_top='' ;; esac
    [ "$bay_text" != "$bay_start" ] || bay_top=$bay_start
    bay_top=$bay_here$bay_top
    bay_keys=$(find -L "${bay_top%/}" -type f 2>/dev/null | choose "$bay_here")
}

# What lies directly in the folder, folders first; or what is called so.
show_level() {
    case $bay_file in *[*?[\\]*) refuse "\`list\` shows one folder; \`make find file='$bay_file'\` looks through all" ;; esac
    read_pattern
    bay_folder=${bay_text%/}
    [ -z "$bay_folder" ] || bay_folder=$bay_folder/
    find_keys
    [ -n "$bay_keys" ] || return 0
    bay_level=$(printf '%s\n' "$bay_keys" | while IFS= read -r bay_key; do
        bay_rest=${bay_key#"$bay_folder"}
        case $bay_key/ in
        # What is called as the folder is.
        "$bay_folder") printf '1 %s\n' "$bay_key" ;;
        "$bay_folder"*/*/) printf '0 %s%s/\n' "$bay_folder" "${bay_rest%%/*}" ;;
        *) printf '1 %s\n' "$bay_key" ;;
        esac
    done)
    printf '%s\n' "$bay_level" | sort -u | sed 's/^..//'
}

# An order for s5cmd for each key; what is as it was is left to it.
write_orders() {
    bay_same='-n -s -u '
    [ -z "$bay_overwrite" ] || bay_same=''
    while IFS= read -r bay_key; do
        quote "$bay_root$bay_key"
        bay_there=$bay_quoted
        quote "$bay_here$bay_key"
        case $bay_verb in
        download) ! is_safe "$bay_key" || printf 'cp %s--raw %s %s\n' "$bay_same" "$bay_there" "$bay_quoted" ;;
        upload) printf 'cp %s--raw %s %s\n' "$bay_same" "$bay_quoted" "$bay_there" ;;
        remove) printf 'rm --raw %s\n' "$bay_there" ;;
        esac
    done
    return "$bay_code"
}

# What a tool says it did, in the words of the document; its last line is our own, with its code.
retell() {
    while IFS= read -r bay_line; do
        case $bay_line in
        "cp $bay_root"* | "download: $bay_root"*)
            bay_rest=${bay_line#*"$bay_root"}
            bay_key=${bay_rest%" $bay_here"*}
            [ "$bay_tool" = s5cmd ] || bay_key=${bay_rest%% to *}
            printf 'Downloaded %s to %s%s\n' "$bay_key" "$bay_here" "$bay_key"
            ;;
        'cp '* | 'upload: '*)
            bay_key=${bay_line##*" $bay_root"}
            printf 'Uploaded %s%s to %s\n' "${bay_here#./}" "$bay_key" "$bay_key"
            ;;
        'rm '* | 'delete: '*) printf 'Removed %s\n' "${bay_line#*"$bay_root"}" ;;
        'code '*) return "${bay_line#code }" ;;
        esac
    done
}

by_s5cmd() {
    bay_orders=$(printf '%s\n' "$bay_keys" | write_orders) || bay_code=1
    [ -n "$bay_orders" ] || return 0
    {
        printf '%s\n' "$bay_orders" | call_s5cmd run
        printf 'code %s\n' "$?"
    } | retell || bay_code=1
}

# One call for all that is below a folder, else one for each: aws has no list of orders.
by_aws() {
    {
        bay_failed=0
        case $bay_verb$bay_overwrite$bay_below in
        download | upload)
            if [ "$bay_text" = "$bay_start" ]; then sync_by_aws || bay_failed=1; else each_by_aws || bay_failed=1; fi
            ;;
        *) each_by_aws || bay_failed=1 ;;
        esac
        printf 'code %s\n' "$bay_failed"
    } | retell || bay_code=1
}

sync_by_aws() {
    if [ "$bay_verb" = download ]; then
        call_aws sync --no-progress "$bay_root$bay_text" "$bay_here$bay_text"
    else
        call_aws sync --no-progress "$bay_here$bay_text" "$bay_root$bay_text"
    fi
}

each_by_aws() {
    printf '%s\n' "$bay_keys" | {
        bay_code=0
        while IFS= read -r bay_key; do
            case $bay_verb in
            download) ! is_safe "$bay_key" || call_aws cp --no-progress "$bay_root$bay_key" "$bay_here$bay_key" || bay_code=1 ;;
            upload) call_aws cp --no-progress "$bay_here$bay_key" "$bay_root$bay_key" || bay_code=1 ;;
            remove) call_aws rm "$bay_root$bay_key" || bay_code=1 ;;
            esac </dev/null
        done
        return "$bay_code"
    }
}

carry_out() {
    [ "$bay_verb" != list ] || { show_level; return; }
    read_pattern
    if [ "$bay_verb" = upload ]; then find_files; else find_keys; fi
    if [ -z "$bay_keys" ]; then
        [ "$bay_verb" = upload ] || fail "nothing in $bay_root matches \`$bay_file\`"
        fail "nothing in $bay_here matches \`$bay_file\`"
    fi
    case $bay_verb in
    find) printf '%s\n' "$bay_keys" ;;
    *) "by_$bay_tool" ;;
    esac
}

bay_file='' bay_local='' bay_overwrite='' bay_yes='' bay_verbs='' bay_code=0
bay_as=$1
shift
"read_$bay_as" "$@"
for bay_verb in $bay_verbs; do
    # As make, which makes nothing after what failed.
    [ "$bay_code" = 0 ] || break
    check
    find_places
    if has_s5cmd; then
        bay_tool=s5cmd
        carry_out
    elif has_python; then
        # Not the program's own modules, nor its variables.
        python3 -I -S -X utf8 "$bay_node/s3.py" "$bay_verb" "$bay_file" "$bay_here" "$bay_overwrite" || bay_code=$?
    elif has_aws; then
        bay_tool=aws
        carry_out
    else
        fail "\`make $bay_verb\` needs s5cmd, python3 or aws in the image, or bay itself: pip install launchbay"
    fi
done
exit "$bay_code"
