# Completes command lines in fish.
function offers # EXPECTED LINE
    set -l offered (complete -C $argv[2] | string split -f 1 \t | string join " ")
    test "$offered" = "$argv[1]"; or begin
        echo "$argv[2]: offered $offered, expected $argv[1]"
        exit 1
    end
end
offers tune "autotune tun"
offers "evolution random" "autotune tune --search "
offers "--trials --trials-per-task" "autotune tune --tria"
offers show "autotune records sh"
offers drain "rpc_tracker dra"
