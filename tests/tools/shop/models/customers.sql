{{ config(materialized='table') }}
select
  cast(c.id as int) as id,
  cast(c.name as string) as name,
  cast(coalesce(sum(o.amount), 0) as decimal(20, 2)) as total
from {{ ref('raw_customers') }} c left join {{ ref('raw_orders') }} o on o.customer_id = c.id
group by 1, 2
