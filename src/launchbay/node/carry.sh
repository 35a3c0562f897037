# shellcheck shell=sh disable=SC2154
# Read by bring.sh, ship.sh and container.sh: copies between a folder and object storage with what the node has.
#
#   enter_store URL STORE   have the variables that tools read; STORE is shell text from env.sh
#   find_tool URL           sets bay_tool: bay, s5cmd, rclone, aws, cp for a folder, signed, or nothing
#   carry_down URL FOLDER   as follow: a signal reaches us meanwhile
#   carry_up FOLDER URL
#
# STORE sets bay_endpoint, bay_region, bay_account, bay_unsigned, and the names of keys as tools know them; the keys
# themselves are variables of the run. From env.sh: bay_python, an interpreter that has launchbay. From secrets.sh:
# bay_puts and bay_gets_…, addresses that work without keys, a line each, which no program is given as a word.
bay_following=''

# As a child that we wait for, with FILE as its input: follow FILE WORD…
follow_with() {
    bay_input=$1
    shift
    "$@" <"$bay_input" &
    bay_following=$!
    wait "$bay_following"
    bay_code=$?
    bay_following=''
    return "$bay_code"
}

follow() {
    follow_with /dev/null "$@"
}

# A child that has hardly begun may miss the first signal.
end_following() {
    [ -n "$bay_following" ] || return 0
    bay_signal=TERM bay_waited=0
    while kill -"$bay_signal" "$bay_following"; do
        sleep 0.1 || sleep 1
        bay_waited=$((bay_waited + 1))
        [ "$bay_waited" -lt 30 ] || bay_signal=KILL
    done 2>/dev/null
}

# Why a tool failed, from what it said: the line that says so, else the first; without what would break a record.
last_line() {
    {
        sed -n 's/^error: //p' "$1"
        grep -v '^error: ' "$1" | grep -v '^hint: '
    } 2>/dev/null | sed -n '/[^[:space:]]/{s/^launchbay: //;p;q;}' | tr -d '\\"' | tr -c '\040-\176\n' ' ' | cut -c 1-300
}

# Where on this node the folder is that comes from $1, which is kept as $2 where it had to be fetched.
# shellcheck disable=SC2034,SC2088
find_folder() {
    case $1 in
    file://*) bay_path=${1#file://} ;;
    *://*) bay_path=${bay_run%/runs/*}/data/$2 ;;
    /*) bay_path=$1 ;;
    '~') bay_path=$HOME ;;
    '~/'*) bay_path=$HOME/${1#??} ;;
    *) bay_path=$HOME/$1 ;;
    esac
}

enter_store() {
    bay_endpoint='' bay_region='' bay_account='' bay_unsigned='' bay_keyless=''
    eval "$2"
    # Without a file: everything that rclone has to know is here.
    export RCLONE_CONFIG_BAY_ENV_AUTH=true RCLONE_LOCAL_NO_CHECK_UPDATED=true RCLONE_LOG_LEVEL=ERROR
    case $1 in
    s3://*) enter_s3 ;;
    gs://*) export RCLONE_CONFIG_BAY_TYPE='google cloud storage' RCLONE_CONFIG_BAY_BUCKET_POLICY_ONLY=true ;;
    az://*)
        export RCLONE_CONFIG_BAY_TYPE=azureblob
        [ -z "$bay_account" ] || export AZURE_STORAGE_ACCOUNT_NAME="$bay_account"
        [ -z "${AZURE_STORAGE_ACCOUNT_NAME-}" ] || export RCLONE_CONFIG_BAY_ACCOUNT="$AZURE_STORAGE_ACCOUNT_NAME"
        [ -z "${AZURE_STORAGE_KEY-}" ] || export RCLONE_CONFIG_BAY_KEY="$AZURE_STORAGE_KEY" RCLONE_CONFIG_BAY_ENV_AUTH=false
        [ -z "$bay_endpoint" ] || export RCLONE_CONFIG_BAY_ENDPOINT="$bay_endpoint"
        ;;
    esac
}

enter_s3() {
    export RCLONE_CONFIG_BAY_TYPE=s3 RCLONE_CONFIG_BAY_PROVIDER=AWS RCLONE_CONFIG_BAY_NO_CHECK_BUCKET=true
    [ -z "$bay_region" ] ||
        export AWS_REGION="$bay_region" AWS_DEFAULT_REGION="$bay_region" RCLONE_CONFIG_BAY_REGION="$bay_region"
    if [ -n "$bay_endpoint" ]; then
        export AWS_ENDPOINT_URL="$bay_endpoint" S3_ENDPOINT_URL="$bay_endpoint"
        export RCLONE_CONFIG_BAY_ENDPOINT="$bay_endpoint" RCLONE_CONFIG_BAY_PROVIDER=Other
        export AWS_REGION="${AWS_REGION:-${AWS_DEFAULT_REGION:-us-east-1}}"
    else
        unset AWS_ENDPOINT_URL S3_ENDPOINT_URL
    fi
    # Whoever has no keys may still read what everybody may; this node may have some of its own.
    if [ -n "$bay_keyless" ] && [ ! -e ~/.aws/credentials ] && [ ! -e ~/.aws/config ] &&
        [ -z "${AWS_ACCESS_KEY_ID-}${AWS_PROFILE-}${AWS_ROLE_ARN-}${AWS_CONTAINER_CREDENTIALS_FULL_URI-}" ]; then
        bay_unsigned=1
    fi
    [ -z "$bay_unsigned" ] || export RCLONE_CONFIG_BAY_ENV_AUTH=false
}

# A stub may be there that only complains.
has_tool() {
    case $1 in
    bay)
        [ -n "${bay_python-}" ] && [ -x "$bay_python" ] && return
        bay_python=''
        command -v bay >/dev/null 2>&1 && bay carry --help >/dev/null 2>&1
        ;;
    aws) command -v aws >/dev/null 2>&1 && aws --version >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null 2>&1 && "$1" version >/dev/null 2>&1 ;;
    esac
}

find_tool() {
    case $1 in
    file://*) set -- cp ;;
    s3://*) set -- bay s5cmd rclone aws ;;
    *) set -- bay rclone ;;
    esac
    for bay_tool in "$@"; do
        [ "$bay_tool" != cp ] || return 0
        ! has_tool "$bay_tool" || return 0
    done
    bay_tool=''
    if [ -n "$bay_signed" ] && { command -v curl || command -v python3; } >/dev/null 2>&1; then bay_tool=signed; fi
}

# As launchbay itself would have it: the program's own modules are not ours.
call_bay() {
    unset PYTHONPATH PYTHONHOME
    cd / || return
    set -- "$@" --endpoint "$bay_endpoint" --region "$bay_region" --account "$bay_account" ${bay_unsigned:+--anonymous}
    if [ -n "$bay_python" ]; then exec "$bay_python" -m launchbay carry "$@"; else exec bay carry "$@"; fi
}

carry_down() {
    case $bay_tool in
    cp) follow cp -Rf "${1#file://}/." "$2/" ;;
    bay) follow call_bay down "$1" "$2" ;;
    s5cmd) follow s5cmd --log error ${bay_unsigned:+--no-sign-request} sync "$1/*" "$2/" ;;
    rclone) follow rclone copy --config '' "bay:${1#*://}" "$2" ;;
    aws) follow aws s3 sync --only-show-errors ${bay_unsigned:+--no-sign-request} \
        ${bay_endpoint:+"--endpoint-url=$bay_endpoint"} "$1" "$2" ;;
    esac
}

carry_up() {
    case $bay_tool in
    cp) mkdir -p "${2#file://}" && follow cp -Rf "$1/." "${2#file://}/" ;;
    bay) follow call_bay up "$1" "$2" ;;
    s5cmd) follow s5cmd --log error sync "$1/" "$2/" ;;
    rclone) follow rclone copy --config '' "$1" "bay:${2#*://}" ;;
    aws) follow aws s3 sync --only-show-errors ${bay_endpoint:+"--endpoint-url=$bay_endpoint"} "$1" "$2" ;;
    esac
}

# Lines `<address> <path>` on $1, the paths in quotes as curl's configuration has them: each is sent, or brought.
carry_signed() {
    bay_way=$1 bay_list=$2
    if command -v curl >/dev/null 2>&1; then
        bay_word=output
        [ "$bay_way" = get ] || bay_word=upload-file
        {
            sed "s/^\([^ ]*\) \(.*\)\$/url = \"\1\"\\
$bay_word = \2/" "$bay_list"
            [ "$bay_way" = get ] || printf 'header = "x-ms-blob-type: BlockBlob"\n'
        } >"$bay_list.curl"
        follow_with "$bay_list.curl" curl --silent --show-error --fail --fail-early --globoff --location --retry 3 \
            --create-dirs --config - >/dev/null
        bay_code=$?
        rm -f "$bay_list.curl"
        return "$bay_code"
    fi
    follow_with "$bay_list" python3 -S -E "$bay_node/signed.py" "$bay_way"
}
